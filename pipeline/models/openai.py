"""Embeddings from an OpenAI-compatible service: in batches, several at a time, checked before anyone uses them."""

from __future__ import annotations

import base64
import binascii
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import EmbedderRefused, EmbedderUnavailable, Misconfigured, Unavailable
from pipeline.models.port import Matrix
from pipeline.models.retries import FIRST_WAIT_S, Deadline, keep_trying
from pipeline.models.service import OpenAIService, ServiceRefused
from pipeline.models.texts import estimated_tokens, sendable

_PROBE: Final = "hello"  # a text no service has a reason to refuse
_GRACE_S: Final = 0.25  # how long after the deadline a request may take to notice it


class OpenAIEmbedder:
    """Vectors from a service that speaks OpenAI's `/embeddings`. Safe to share between threads; close it when done."""

    def __init__(
        self,
        *,
        model: str,
        dimension: int,
        batch_texts: int = 256,
        batch_tokens: int = 100_000,
        timeout_s: float = 30.0,
        retries: int = 4,
        concurrency: int = 4,
        first_wait_s: float = FIRST_WAIT_S,
        base_url: str | None = None,
        api_key: str | None = None,
    ) -> None:
        """``timeout_s`` bounds one request; ``concurrency`` is how many of one call's batches are under way at once.

        Without ``base_url`` and ``api_key`` the variables of the openai package hold. Raises Misconfigured.
        """
        self._service = OpenAIService(timeout_s=timeout_s, base_url=base_url, api_key=api_key)
        self._model = model
        self._dimension = dimension
        self._batch_texts = batch_texts
        self._batch_tokens = batch_tokens
        self._retries = retries
        self._concurrency = concurrency
        self._first_wait_s = first_wait_s

    @property
    def model(self) -> str:
        """The model's name at the service."""
        return self._model

    @property
    def dimension(self) -> int:
        """Length of every vector."""
        return self._dimension

    def embed(self, texts: Sequence[str], *, timeout_s: float | None = None) -> Matrix:
        """Embed ``texts``; see the port. A text of more than about 8192 tokens is embedded by its beginning.

        Raises EmbedderRefused with ``indexes`` naming the texts the service will not embed, once it is known that all
        others can be; EmbedderUnavailable after retries; Misconfigured when address, key, model or dimension are wrong.
        """
        call = _Call([sendable(text) for text in texts], self._dimension, Deadline(timeout_s))
        batches = list(_batches(call.texts, max_texts=self._batch_texts, max_tokens=self._batch_tokens))
        if batches:
            self._run(call, batches)
        if call.refused:
            indexes = tuple(sorted(call.refused))
            raise EmbedderRefused(call.refused[indexes[0]], indexes=indexes)
        return call.vectors

    def close(self) -> None:
        """Close the connections to the service."""
        self._service.close()

    def _run(self, call: _Call, batches: list[range]) -> None:
        """Embed all batches, or raise the first failure without waiting for the rest of them."""
        pool = ThreadPoolExecutor(min(self._concurrency, len(batches)), thread_name_prefix="embed")
        try:
            under_way = [pool.submit(self._fill, call, batch) for batch in batches]
            remaining = call.deadline.remaining()
            limit = None if remaining is None else remaining + _GRACE_S
            done, late = wait(under_way, timeout=limit, return_when=FIRST_EXCEPTION)
            for finished in done:
                finished.result()
            if late:
                raise EmbedderUnavailable("the embedding service did not answer in time")
        except Unavailable as error:
            raise EmbedderUnavailable(str(error), retry_after_s=error.retry_after_s) from None
        finally:
            call.over.set()
            pool.shutdown(wait=False, cancel_futures=True)

    def _fill(self, call: _Call, batch: range) -> None:
        """Embed the texts of ``batch`` into their rows; what the service refuses is narrowed down to single texts."""
        try:
            rows = keep_trying(
                lambda: self._request([call.texts[at] for at in batch], call.deadline),
                retries=self._retries,
                deadline=call.deadline,
                stop=call.over,
                first_wait_s=self._first_wait_s,
            )
        except ServiceRefused as refusal:
            self._probe(call, refusal)
            if len(batch) == 1:
                call.refused[batch.start] = str(refusal)
                return
            middle = len(batch) // 2
            self._fill(call, batch[:middle])
            self._fill(call, batch[middle:])
        else:
            call.vectors[batch.start : batch.stop] = rows

    def _probe(self, call: _Call, refusal: ServiceRefused) -> None:
        """Tell a bad text from a service that refuses everything, for which no document may be blamed."""
        with call.probing:
            if call.accepts_anything:
                return
            try:
                keep_trying(
                    lambda: self._request([_PROBE], call.deadline),
                    retries=self._retries,
                    deadline=call.deadline,
                    stop=call.over,
                    first_wait_s=self._first_wait_s,
                )
            except ServiceRefused:
                raise Misconfigured(f"the embedding service refuses every text: {refusal}") from None
            call.accepts_anything = True

    def _request(self, texts: list[str], deadline: Deadline) -> Matrix:
        request: dict[str, Any] = {"model": self._model, "input": texts, "encoding_format": "base64"}
        if self._model.rpartition("/")[2].startswith("text-embedding-3"):  # the family that can shorten its vectors
            request["dimensions"] = self._dimension
        answer = self._service.embeddings(request, deadline=deadline, fallbacks={"encoding_format": "float"})
        return unit_rows(answer, count=len(texts), dimension=self._dimension)


class _Call:
    """One call of `embed`: its texts, the rows filled so far, and what its batches tell each other."""

    def __init__(self, texts: list[str], dimension: int, deadline: Deadline) -> None:
        self.texts = texts
        self.vectors: Matrix = np.empty((len(texts), dimension), dtype=np.float32)
        self.refused: dict[int, str] = {}
        self.deadline = deadline
        self.over = threading.Event()
        self.probing = threading.Lock()
        self.accepts_anything = False


def _batches(texts: Sequence[str], *, max_texts: int, max_tokens: int) -> Iterator[range]:
    """Consecutive stretches of ``texts``, each within both limits, or a single text that is over the second alone."""
    start, tokens = 0, 0
    for at, text in enumerate(texts):
        cost = estimated_tokens(text)
        if at > start and (at - start == max_texts or tokens + cost > max_tokens):
            yield range(start, at)
            start, tokens = at, 0
        tokens += cost
    if start < len(texts):
        yield range(start, len(texts))


def unit_rows(answer: Any, *, count: int, dimension: int) -> Matrix:
    """The vectors of an `/embeddings` answer in the order of their ``index``, each of length 1.

    Raises EmbedderUnavailable when the answer is not one finite, non-zero vector for each of ``count`` texts, and
    Misconfigured when all vectors agree on a length other than ``dimension``.
    """
    items = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise EmbedderUnavailable("the embedding service answered without a list of embeddings")
    by_index = {item["index"]: item for item in items if type(item.get("index")) is int}
    if len(items) != count or by_index.keys() != set(range(count)):
        raise EmbedderUnavailable(
            f"the embedding service answered {len(items)} embeddings for {count} texts, or misnumbered them"
        )
    vectors = [_numbers(by_index[at].get("embedding")) for at in range(count)]
    lengths = {vector.size for vector in vectors}
    if lengths == {dimension}:
        return _normalised(np.stack(vectors))
    if len(lengths) == 1:
        raise Misconfigured(
            f"the embedding model gives vectors of {lengths.pop()} numbers, but CHORDWISE_EMBEDDING_DIM is {dimension}"
        )
    raise EmbedderUnavailable("the embedding service answered with vectors of different lengths")


def _numbers(embedding: Any) -> NDArray[np.float64]:
    """One vector, sent as a list of numbers or as base64 of little-endian 32-bit floats."""
    try:
        if isinstance(embedding, str):
            return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4").astype(np.float64)
        if isinstance(embedding, list):
            vector = np.array(embedding, dtype=np.float64)
            if vector.ndim == 1:
                return vector
    except (ValueError, TypeError, OverflowError, binascii.Error):
        pass
    raise EmbedderUnavailable("the embedding service answered with something that is not a vector")


def _normalised(vectors: NDArray[np.float64]) -> Matrix:
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not (np.isfinite(lengths).all() and (lengths > 0.0).all()):
            raise EmbedderUnavailable("the embedding service answered with a vector that is zero or not finite")
        unit: Matrix = (vectors / lengths).astype(np.float32)
    return unit
