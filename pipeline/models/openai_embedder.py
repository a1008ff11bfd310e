"""Embeddings from an OpenAI-compatible service: batched, several requests at a time, checked before use."""

from __future__ import annotations

import base64
import binascii
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, wait
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pipeline.deadline import Deadline
from pipeline.errors import (
    EmbedderRefused,
    EmbedderUnavailable,
    Misconfigured,
    PipelineError,
    RateLimited,
    Silent,
    Unavailable,
)
from pipeline.filters.python_filters import sent_number
from pipeline.models.ports import Answered, Matrix, PaidEmbedder
from pipeline.models.prompt_texts import estimated_tokens, sendable
from pipeline.models.retries import FIRST_WAIT_S, keep_trying
from pipeline.models.service_client import LEFT_OUT, OpenAIService, ServiceBusy, ServiceRefused, ServiceUnavailable
from pipeline.models.service_pace import ProviderLimits, limits_in
from pipeline.models.service_pace_store import FleetGovernor
from pipeline.outages import raise_for_outage
from pipeline.threads import start_call

_REMEMBERED: Final = 0.98  # weight of earlier observations in the correction of token estimates
_PROBE: Final = "hello"  # a text no service has a reason to refuse
_GRACE_S: Final = 0.25  # grace after the deadline for a request to notice it
_PATIENCE_S: Final = 60.0  # for leave to send a request without a deadline; its next try can be scheduled


class OpenAIEmbedder(PaidEmbedder):
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
        governed_by: Callable[[str], FleetGovernor] | None = None,
    ) -> None:
        """``timeout_s`` bounds one request, ``concurrency`` is the number of batches of a call at once; ``governed_by``
        gives an account's governor by address and model. Without ``base_url`` and ``api_key`` the openai package's
        variables apply. Raises Misconfigured."""
        self._service = OpenAIService(timeout_s=timeout_s, base_url=base_url, api_key=api_key)
        self.model = model
        self.dimension = dimension
        self._batch_texts = batch_texts
        self._batch_tokens = batch_tokens
        self._retries = retries
        self._concurrency = concurrency
        self._first_wait_s = first_wait_s
        self._governor = None if governed_by is None else governed_by(f"{self._service.address} {model}")
        self._tokens_real = self._tokens_estimated = 0.0

    def embed(self, texts: Sequence[str], *, timeout_s: float | None = None) -> Matrix:
        """Embed ``texts``, the beginning of those above about 8192 tokens; see the port. Raises EmbedderRefused with
        ``reasons`` for texts that are refused, or fail while others are answered, once the rest is known to work;
        EmbedderUnavailable after retries if the service fails for every text; Misconfigured."""
        return self.embed_counted(texts, answered=lambda *_: None, timeout_s=timeout_s)

    def embed_counted(
        self,
        texts: Sequence[str],
        *,
        answered: Answered,
        urgent: bool = False,
        timeout_s: float | None = None,
        stop: threading.Event | None = None,
    ) -> Matrix:
        """Embed the texts, passing every answer to ``answered``; see the port. Sets ``stop`` when it is over."""
        call = _Call(texts, self.dimension, Deadline.after(timeout_s), answered, urgent=urgent, over=stop)
        limits = (self._batch_tokens, self._governor.largest_request_tokens if self._governor else None)
        most_tokens = min(limit for limit in limits if limit is not None)
        batches = list(_batches(call.texts, max_texts=self._batch_texts, max_tokens=most_tokens))
        if batches:
            self._run(call, batches)
        if call.refused:
            raise EmbedderRefused(reasons=call.refused)
        return call.vectors

    def close(self) -> None:
        """Close the connections to the service."""
        self._service.close()

    def _run(self, call: _Call, batches: list[range]) -> None:
        """Embed all batches, or raise the first failure without waiting for the rest of them."""
        waiting = iter(batches)  # shared by the threads

        def fill() -> None:
            for batch in waiting:
                if call.over.is_set():
                    raise EmbedderUnavailable("given up by its caller")
                self._fill(call, batch)

        try:
            under_way = [start_call(fill) for _ in batches[: self._concurrency]]
            left_s = call.deadline.left_s()
            limit = None if left_s == math.inf else left_s + _GRACE_S
            done, late = wait(under_way, timeout=limit, return_when=FIRST_EXCEPTION)
            for finished in done:
                finished.result()
            if late:
                raise EmbedderUnavailable("the embedding service did not answer in time")
        except RateLimited:
            raise
        except Unavailable as error:
            raise EmbedderUnavailable(str(error), retry_after_s=error.retry_after_s) from None
        finally:
            call.over.set()

    def _fill(self, call: _Call, batch: range, *, failed: PipelineError | None = None) -> None:
        """Embed the texts of ``batch`` into their rows. Halve it after a refusal or a lasting failure, down to single texts.

        ``failed``: the failure of the batch of which this one is a half. Such a half is tried less often: once after a
        silence, which costs the whole time of a request, else twice until it is one text.
        """
        retries = self._retries
        if failed is not None:
            retries = 0 if isinstance(failed, Silent) else 1 if len(batch) > 1 else retries
        try:
            rows = self._request_with_retries(call, [call.texts[index] for index in batch], batch, retries=retries)
        except ServiceRefused as refusal:
            self._probe(call, refusal)
            self._split(call, batch, str(refusal), failed=failed)
        except (Unavailable, _WrongLength) as failure:
            if failed is None and (isinstance(failure, _WrongLength) or not self._retries):
                raise  # all vectors of an answer are wrong, or it has failed only once
            self._confirm_that_others_work(call, failure)
            reason = f"the embedding service answers other texts, but fails for this one: {failure}"
            self._split(call, batch, reason, failed=failure)
        else:
            call.vectors[batch.start : batch.stop] = rows

    def _split(self, call: _Call, batch: range, reason: str, *, failed: PipelineError | None) -> None:
        """Embed both halves of a batch, or record why its only text has no vector."""
        if len(batch) == 1:
            call.refused[batch.start] = reason
            return
        refused, middle = len(call.refused), len(batch) // 2
        self._fill(call, batch[:middle], failed=failed)
        self._fill(call, batch[middle:], failed=failed)
        if len(call.refused) == refused and failed is None:
            # Every text was taken: only the size of the batch was refused.
            self._batch_texts = min(self._batch_texts, max(middle, 1))

    def _probe(self, call: _Call, refusal: ServiceRefused) -> None:
        """Tell a bad text from a service that refuses everything, which is no document's fault."""
        with call.probing:
            if call.accepts_anything:
                return
            try:
                self._request_with_retries(call, [_PROBE], None, retries=self._retries)
            except ServiceRefused:
                raise Misconfigured(f"the embedding service refuses every text: {refusal}") from None
            call.accepts_anything = True

    def _confirm_that_others_work(self, call: _Call, failure: Unavailable | _WrongLength) -> None:
        """Return if the service embeds another text right after ``failure``; otherwise it is down, or has asked for a
        pause, and ``failure`` is raised."""
        asked_to_wait = isinstance(failure, RateLimited | ServiceBusy) or getattr(failure, "retry_after_s", None)
        if asked_to_wait or call.over.is_set() or call.deadline.has_passed:
            raise failure
        with raise_for_outage(lambda _: failure, also=(ServiceRefused, _WrongLength)):
            self._request_with_retries(call, [_PROBE], None, retries=0)

    def _request_with_retries(self, call: _Call, texts: list[str], positions: range | None, *, retries: int) -> Matrix:
        return keep_trying(
            lambda: self._request(call, texts, positions),
            retries=retries,
            deadline=call.deadline,
            stop=call.over,
            first_wait_s=self._first_wait_s,
        )

    def _request(self, call: _Call, texts: list[str], positions: range | None) -> Matrix:
        """Send one request when permitted, and return its vectors; one refused for lack of capacity waits again."""
        if self._governor is None:
            return self._send(call, texts, positions, _ReportedLimits())
        estimated = sum(estimated_tokens(text) for text in texts)
        patience = Deadline.after(call.deadline.within(_PATIENCE_S))
        while True:
            tokens = estimated * self._real_share
            permit = self._governor.admit(tokens, urgent=call.urgent, longest_s=patience.left_s(), stop=call.over)
            reported = _ReportedLimits()
            try:
                rows = self._send(call, texts, positions, reported)
            except ServiceUnavailable as error:
                too_many, rest_s = isinstance(error, ServiceBusy), error.retry_after_s
                if too_many or rest_s is not None:
                    self._governor.refused(permit, too_many=too_many, retry_after_s=rest_s, limits=reported.limits)
                if not too_many:
                    raise
            else:
                self._governor.answered(permit, reported.limits)
                return rows

    def _send(self, call: _Call, texts: list[str], positions: range | None, reported: _ReportedLimits) -> Matrix:
        request: dict[str, Any] = {"model": self.model, "input": texts, "encoding_format": "base64"}
        if self.model.rpartition("/")[2].startswith("text-embedding-3"):  # the family that can shorten its vectors
            request["dimensions"] = self.dimension
        answer = self._service.embeddings(
            request,
            deadline=call.deadline,
            fallbacks={"encoding_format": ("float", LEFT_OUT)},
            on_headers=reported.read,
        )
        estimated = sum(estimated_tokens(text) for text in texts)
        tokens = counted_tokens(answer)
        if tokens:  # estimates run high: learn slowly how they relate to this service's counts
            self._tokens_real = self._tokens_real * _REMEMBERED + tokens
            self._tokens_estimated = self._tokens_estimated * _REMEMBERED + estimated
        rows: Matrix | None = None
        try:
            rows = unit_rows(answer, count=len(texts), dimension=self.dimension)
        finally:  # the service has counted it, even if the vectors are unusable
            vectors = rows if positions is not None else None
            call.answered(positions or range(0), vectors, estimated if tokens is None else tokens)
        return rows

    @property
    def _real_share(self) -> float:
        return self._tokens_real / self._tokens_estimated if self._tokens_estimated else 1.0


class _WrongLength(Misconfigured):
    """Every vector of an answer has the same length, which is not the configured one."""


class _ReportedLimits:
    """The limits that an answer's headers name."""

    def __init__(self) -> None:
        self.limits = ProviderLimits()

    def read(self, headers: Mapping[str, str]) -> None:
        self.limits = limits_in(headers)


class _Call:
    """One call of `embed`: its texts, the rows filled so far, and the state shared by its batches."""

    def __init__(
        self,
        texts: Sequence[str],
        dimension: int,
        deadline: Deadline,
        answered: Answered,
        *,
        urgent: bool,
        over: threading.Event | None,
    ) -> None:
        self.texts = [sendable(text) for text in texts]
        self.answered = answered
        self.urgent = urgent
        self.vectors: Matrix = np.empty((len(texts), dimension), dtype=np.float32)
        self.refused: dict[int, str] = {}
        self.deadline = deadline
        self.over = over or threading.Event()
        self.probing = threading.Lock()
        self.accepts_anything = False


def _batches(texts: Sequence[str], *, max_texts: int, max_tokens: int) -> Iterator[range]:
    """Yield consecutive ranges of ``texts``, each within both limits, or a single text that exceeds the second one."""
    start, tokens = 0, 0
    for at, text in enumerate(texts):
        cost = estimated_tokens(text)
        if at > start and (at - start == max_texts or tokens + cost > max_tokens):
            yield range(start, at)
            start, tokens = at, 0
        tokens += cost
    if start < len(texts):
        yield range(start, len(texts))


def counted_tokens(answer: Any) -> int | None:
    """Return the tokens that an answer reports; None if it reports none."""
    usage = answer.get("usage") if isinstance(answer, dict) else None
    tokens = usage.get("total_tokens", usage.get("prompt_tokens")) if isinstance(usage, dict) else None
    return tokens if type(tokens) is int and tokens >= 0 else None


def unit_rows(answer: Any, *, count: int, dimension: int) -> Matrix:
    """Return an answer's vectors by ``index``, or in their order if all have the same or none, each of length 1. Raises
    EmbedderUnavailable without one finite, non-zero vector per text, Misconfigured when all lengths differ from
    ``dimension``."""
    items = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise EmbedderUnavailable("the embedding service answered without a list of embeddings")
    indexes = [sent_number(item.get("index")) for item in items]
    by_index = dict(zip(range(len(items)) if len(set(indexes)) == 1 else indexes, items, strict=True))
    if len(items) != count or by_index.keys() != set(range(count)):
        raise EmbedderUnavailable(
            f"the embedding service answered {len(items)} embeddings for {count} texts, or misnumbered them"
        )
    vectors = [_numbers(by_index[at].get("embedding")) for at in range(count)]
    lengths = {vector.size for vector in vectors}
    if lengths == {dimension}:
        return _normalised(np.stack(vectors))
    if len(lengths) == 1:
        raise _WrongLength(
            f"the embedding model gives vectors of {lengths.pop()} numbers, but CHORDWISE_EMBEDDING_DIM is {dimension}"
        )
    raise EmbedderUnavailable("the embedding service answered with vectors of different lengths")


def _numbers(embedding: Any) -> NDArray[np.float64]:
    """Decode one vector, sent as a list of numbers or as base64 of little-endian 32-bit floats."""
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
