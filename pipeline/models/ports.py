"""The contracts of models. Each port has at least two implementations, held to one contract in tests/contract."""

import abc
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.records import Candidate

Matrix = NDArray[np.float32]
# Receives one answer: the positions of its texts, their vectors (None if unusable), and the tokens it counts as.
Answered = Callable[[range, Matrix | None, int], object]


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
        """Return an array of shape ``(len(texts), dimension)``, rows of length 1, also for blank texts; overlong texts
        are cut. ``timeout_s`` bounds the call with its retries; None: the configured timeout per request.

        Raises EmbedderUnavailable (try later), EmbedderRefused (``indexes``: texts it will never embed) or
        Misconfigured.
        """
        ...

    def close(self) -> None:
        """Close the connections; the embedder cannot be used afterwards."""
        ...


class PaidEmbedder(abc.ABC):
    """An embedder that costs money or has limited capacity: cached, metered, and called no faster than it allows. A class
    of its own, because importing the one that derives from it takes a second."""

    @abc.abstractmethod
    def embed_counted(
        self,
        texts: Sequence[str],
        *,
        answered: Answered,
        urgent: bool = False,
        timeout_s: float | None = None,
        stop: threading.Event | None = None,
    ) -> Matrix:
        """Embed as ``embed`` does, passing each answer of the service to ``answered``, from several threads. ``urgent``:
        takes precedence over requests that are not. ``stop`` ends it early. Also raises RateLimited when no request could
        be sent within ``timeout_s`` or, without one, for long."""
        ...


class Reranker(Protocol):
    """Scores candidates against a query by reading both."""

    @property
    def name(self) -> str:
        """Its name in ``stats`` and logs."""
        ...

    @property
    def weight(self) -> float:
        """How far its scores override the fused order, from 0 (not at all) to 1 (entirely)."""
        ...

    def rerank(
        self, query: str, candidates: Sequence[Candidate], *, timeout_s: float, wishes: str = ""
    ) -> dict[str, float]:
        """Return scores in [0, 1] by chunk id; unscored candidates follow. ``wishes``: further demands on a passage, in
        words, for rerankers that understand them. Raises RerankerUnavailable without a usable reply within
        ``timeout_s``."""
        ...

    def close(self) -> None:
        """Close the connections; the reranker cannot be used afterwards."""
        ...
