"""The contracts of models. Each port has at least two implementations, held to one contract in tests/contract."""

import threading
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from cachetools import cached
from numpy.typing import NDArray

from pipeline.embedding.reference_sentences import SPACED, UNSPACED
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


@runtime_checkable
class PartialEmbedder(Embedder, Protocol):
    """An embedder that cannot read every script, and reports it. Other models are assumed to read everything."""

    def trust(self, text: str) -> float:
        """Return how far hits for ``text`` can be relied on: 1 if all of it was understood, 0 if nothing."""
        ...


@runtime_checkable
class SentenceEncoder(Embedder, Protocol):
    """A network in this process: slow; it may encode a question unlike a passage, which ``embed`` encodes."""

    def embed(
        self, texts: Sequence[str], *, timeout_s: float | None = None, stop: threading.Event | None = None
    ) -> Matrix:
        """Embed passages; see `Embedder`. ``stop`` ends the call early, with EmbedderUnavailable."""
        ...

    def embed_queries(self, texts: Sequence[str], *, timeout_s: float | None = None) -> Matrix:
        """Embed questions; see `Embedder`."""
        ...


def query_vectors(embedder: Embedder, texts: Sequence[str], *, timeout_s: float | None = None) -> Matrix:
    """Embed texts as questions. Raises what the embedder raises."""
    if isinstance(embedder, SentenceEncoder):
        return embedder.embed_queries(texts, timeout_s=timeout_s)
    return embedder.embed(texts, timeout_s=timeout_s)


@runtime_checkable
class PaidEmbedder(Embedder, Protocol):
    """An embedder that costs money or has limited capacity: cached, metered, and called no faster than it allows."""

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


def _key(embedder: Embedder, sentences: tuple[str, ...], **_: float | None) -> tuple[str, tuple[str, ...]]:
    return embedder.model, sentences


@cached(cache={}, key=_key, condition=threading.Condition())
def reference_vectors(embedder: Embedder, sentences: tuple[str, ...], *, timeout_s: float | None = None) -> Matrix:
    """Return the vectors of sentences, embedded as passages once per process. Raises the embedder's errors."""
    return embedder.embed(sentences, timeout_s=timeout_s)


def prepare_references(embedder: Embedder) -> None:
    """Embed the reference sentences of both kinds of writing if the model is slow. Raises the embedder's errors."""
    if isinstance(embedder, SentenceEncoder):
        for sentences in (SPACED, UNSPACED):
            reference_vectors(embedder, sentences)
