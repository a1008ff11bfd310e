"""What a model has to promise. Each port has at least two implementations, held to one contract in tests/contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.records import Candidate

Matrix = NDArray[np.float32]


class Embedder(Protocol):
    """Turns texts into unit vectors, one for each, in order; the same text always gives the same vector."""

    @property
    def model(self) -> str:
        """Name of the model, stored beside every vector so that vectors of different models are never compared."""
        ...

    @property
    def dimension(self) -> int:
        """Length of every vector."""
        ...

    def embed(self, texts: Sequence[str], *, timeout_s: float | None = None) -> Matrix:
        """Embed ``texts``: an array of shape ``(len(texts), dimension)``, each row of length 1.

        ``timeout_s`` bounds the whole call, retries included; without it the configured timeout holds per request.
        A blank text has a vector too, and an overlong one is embedded by its beginning. Raises EmbedderUnavailable (try
        later), EmbedderRefused (``indexes`` are the texts it will never embed; the others it would) or Misconfigured.
        """
        ...

    def close(self) -> None:
        """Let go of connections; the embedder cannot be used afterwards."""
        ...


class Reranker(Protocol):
    """Scores candidates against a query by reading both."""

    @property
    def name(self) -> str:
        """How ``stats`` and logs call it."""
        ...

    @property
    def weight(self) -> float:
        """How far its judgement overrules the fused order, from 0 (not at all) to 1 (entirely)."""
        ...

    def rerank(self, query: str, candidates: Sequence[Candidate], *, timeout_s: float) -> dict[str, float]:
        """A score in [0, 1] by chunk id, higher is better; candidates without one keep their place.

        Raises RerankerUnavailable when it gave nothing usable within ``timeout_s``.
        """
        ...

    def close(self) -> None:
        """Let go of connections; the reranker cannot be used afterwards."""
        ...
