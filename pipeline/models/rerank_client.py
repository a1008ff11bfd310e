"""A reranker over HTTP, in one of `DIALECTS`: JSON over POST with a bearer key."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import httpx

from pipeline.deadline import Deadline
from pipeline.errors import Misconfigured, PipelineError, Rejected, RerankerUnavailable
from pipeline.filters.python_filters import finite, sent_number
from pipeline.models.prompt_texts import masked_beginning, sendable
from pipeline.models.retries import bounded, keep_trying
from pipeline.outages import raise_for_outage
from pipeline.outbound.web import retry_after_s
from pipeline.records import Candidate
from pipeline.telemetry.tracing import edge

_LARGEST_LOGIT: Final = 30.0  # beyond it, sigmoids cannot be told apart
_LARGEST_POSITIVE_LOGIT: Final = 20.0  # of a reranker; rather a percentage above it
_ROUNDING: Final = 1e-3  # beyond [0, 1], of scores computed in half precision
_LONGEST_DOCUMENT: Final = 4096  # tokens of one document that Cohere reads; its own default
_TEXT_BUDGET: Final = 200_000  # characters of candidate text for one query, which bounds cost and request size
_LONGEST_TEXT: Final = 6_000  # of one candidate
_LONGEST_QUERY: Final = 2_000
_MAX_BODY_BYTES: Final = 4 * 1024 * 1024
_CONNECT_TIMEOUT_S: Final = 2.0
_RETRIES: Final = 1
_EXTRA_REQUESTS: Final = 16  # to find the texts on which the service fails; one of 200 needs them
_PROBE: Final = "hello"  # a text no service has a reason to refuse
_FIRST_WAIT_S: Final = 0.1  # a user is waiting for the answer
_TRY_LATER: Final = frozenset({408, 409, 425, 429})
_OUR_FAULT: Final = frozenset({401, 403, 404, 405, 424})  # 424: TEI serves a model that is no reranker


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The request format of one kind of service. ``most_texts``: per request. ``body``: builds a request. ``logits``: whether
    it asks for these."""

    path: str
    body: Callable[[str, str, Sequence[str]], dict[str, Any]]
    logits: bool = False
    most_texts: int = 1000

    def scores_in(self, answer: Any, *, count: int) -> dict[int, float]:
        """Return the scores of texts 0 to ``count - 1`` in [0, 1], see `on_unit_scale`."""
        return on_unit_scale(self.raw_scores_in(answer, count=count), are_logits=self.logits)

    def raw_scores_in(self, answer: Any, *, count: int) -> dict[int, float]:
        """Return the scores of texts 0 to ``count - 1`` as the service gives them, in a list of its own or under ``results``
        or ``data``: servers that take the requests of one dialect answer in another's form. Order, repetitions (the first
        counts), unknown indexes and invalid scores do no harm."""
        entries = answer.get("results", answer.get("data")) if isinstance(answer, Mapping) else answer
        scores: dict[int, float] = {}
        for entry in entries if isinstance(entries, list) else ():
            if not isinstance(entry, Mapping):
                continue
            index = sent_number(entry.get("index"))
            score = finite(sent_number(entry.get("relevance_score", entry.get("score"))))
            if type(index) is int and 0 <= index < count and score is not None:
                scores.setdefault(index, score)
        return scores


def on_unit_scale(scores: Mapping[int, float], *, are_logits: bool = False) -> dict[int, float]:
    """Return the scores of one query in [0, 1], in the same order.

    Services that speak a dialect do not all keep to its scale. Scores that all lie in [0, 1] stay as they are. If any
    lies outside, and none below 0, and one above 20 and none above 100, they are percentages. Others are logits, and get
    their sigmoid, or ``(1 + x / (1 + |x|)) / 2`` if any is beyond ±30, where sigmoids would become equal.
    """
    if not scores:
        return {}
    least, most = min(scores.values()), max(scores.values())
    if not are_logits and least >= -_ROUNDING and most <= 1.0 + _ROUNDING:
        return {index: min(1.0, max(0.0, score)) for index, score in scores.items()}
    if not are_logits and least >= 0.0 and _LARGEST_POSITIVE_LOGIT < most <= 100.0:
        return {index: score / 100.0 for index, score in scores.items()}
    squash = _sigmoid if max(-least, most) <= _LARGEST_LOGIT else _softsign
    return {index: squash(score) for index, score in scores.items()}


def _sigmoid(logit: float) -> float:
    return 1.0 / (1.0 + math.exp(-logit))


def _softsign(score: float) -> float:
    return (1.0 + score / (1.0 + abs(score))) / 2.0


def _documents(limit: str, **options: Any) -> Callable[[str, str, Sequence[str]], dict[str, Any]]:
    """Return the builder of a request with ``documents``, the number of scores in ``limit``, and these options."""

    def body(model: str, query: str, texts: Sequence[str]) -> dict[str, Any]:
        return {"model": model, "query": query, "documents": list(texts), limit: len(texts), **options}

    return body


def _tei(_model: str, query: str, texts: Sequence[str]) -> dict[str, Any]:
    # Request logits explicitly, so that the scale of the scores is known.
    return {"query": query, "texts": list(texts), "raw_scores": True, "truncate": True, "return_text": False}


DIALECTS: Final[Mapping[str, Dialect]] = {
    "cohere": Dialect(path="/v2/rerank", body=_documents("top_n", max_tokens_per_doc=_LONGEST_DOCUMENT)),
    "jina": Dialect(path="/v1/rerank", body=_documents("top_n", return_documents=False)),
    "voyage": Dialect(path="/v1/rerank", body=_documents("top_k", return_documents=False, truncation=True)),
    # 32 texts are the default limit of its servers.
    "tei": Dialect(path="/rerank", body=_tei, logits=True, most_texts=32),
}


class HttpReranker:
    """Send all candidates at once, or as few as the service allows, personal data masked. Thread-safe; close it."""

    weight = 0.8  # a model that read the passages knows better than ranks do

    def __init__(self, *, url: str, dialect: str, model: str = "", api_key: str | None = None, timeout_s: float = 2.0):
        """``url``: the service, to which the dialect adds its path, or an address ending in ``/rerank``. ``timeout_s``
        bounds any call. Raises Misconfigured."""
        self._dialect = DIALECTS[dialect]
        address = url.rstrip("/")
        self._url = address if address.endswith("/rerank") else address + self._dialect.path
        self.name = ":".join(part for part in ("http", dialect, model) if part)
        self._model = model
        self._timeout_s = timeout_s
        headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        try:
            if not httpx.Request("POST", self._url).url.host:
                raise httpx.InvalidURL("no host")
            self._client = httpx.Client(headers=headers)
        except (httpx.InvalidURL, UnicodeError):
            raise Misconfigured(
                "CHORDWISE_RERANK_URL or CHORDWISE_RERANK_API_KEY cannot be used in a request"
            ) from None

    def rerank(
        self,
        query: str,
        candidates: Sequence[Candidate],
        *,
        timeout_s: float,
        wishes: str = "",  # noqa: ARG002 - no dialect has a field for them
    ) -> dict[str, float]:
        """Return scores by chunk id, as the port; candidates may lack one. Raises RerankerUnavailable."""
        if not candidates:
            return {}
        deadline = Deadline.after(min(timeout_s, self._timeout_s))
        share = max(1, min(_LONGEST_TEXT, _TEXT_BUDGET // len(candidates)))
        text = sendable(masked_beginning(query, _LONGEST_QUERY))
        texts = [_text(candidate, share) for candidate in candidates]
        try:
            scores = bounded(
                lambda: self._scores(text, texts, deadline),
                seconds=deadline.within(self._timeout_s),
                late=RerankerUnavailable("the rerank service did not answer in time"),
            )
        except (Misconfigured, Rejected) as error:
            raise RerankerUnavailable(str(error)) from None
        if not scores:
            raise RerankerUnavailable("the rerank service scored none of the candidates")
        return {candidates[index].chunk_id: score for index, score in scores.items()}

    def close(self) -> None:
        """Close the connections to the service."""
        self._client.close()

    def _scores(self, query: str, texts: Sequence[str], deadline: Deadline) -> dict[int, float]:
        """Return scores by index in ``texts``, in as many requests as needed. Texts on which the service fails while it
        scores others have none; any other failure fails all."""
        size = self._dialect.most_texts
        asked = _Asked(left=_EXTRA_REQUESTS)
        raw: dict[int, float] = {}
        for start in range(0, len(texts), size):
            raw |= self._raw_scores(query, texts, range(start, min(start + size, len(texts))), deadline, asked)
        return on_unit_scale(raw, are_logits=self._dialect.logits)

    def _raw_scores(
        self,
        query: str,
        texts: Sequence[str],
        batch: range,
        deadline: Deadline,
        asked: "_Asked",
        *,
        retries: int = _RETRIES,
    ) -> dict[int, float]:
        """Return the scores of a batch. If the service fails on it, but scores another text, score both halves. Raises
        the failure if the service fails on everything."""
        body = self._dialect.body(self._model, query, [texts[index] for index in batch])
        content = json.dumps(body, ensure_ascii=False).encode()
        try:
            answer = keep_trying(
                partial(self._post, content, deadline), retries=retries, deadline=deadline, first_wait_s=_FIRST_WAIT_S
            )
        except (_Failed, Rejected) as failure:
            if len(texts) == 1:
                raise
            if not asked.has_worked:
                self._probe(failure, query, deadline)
                asked.has_worked = True
            if len(batch) == 1 or asked.left < 2 or deadline.has_passed:
                return {}
            asked.left -= 2
            middle = len(batch) // 2
            first = self._raw_scores(query, texts, batch[:middle], deadline, asked, retries=0)
            return first | self._raw_scores(query, texts, batch[middle:], deadline, asked, retries=0)
        asked.has_worked = True
        scores = self._dialect.raw_scores_in(answer, count=len(batch))
        return {batch[index]: score for index, score in scores.items()}

    def _probe(self, failure: PipelineError, query: str, deadline: Deadline) -> None:
        """Return if the service scores a text that no service has a reason to refuse, else raise ``failure``."""
        if deadline.has_passed:
            raise failure
        body = json.dumps(self._dialect.body(self._model, query, [_PROBE]), ensure_ascii=False).encode()
        with raise_for_outage(lambda _: failure, also=(Rejected,)):
            answer = self._post(body, deadline)
        if not self._dialect.raw_scores_in(answer, count=1):
            raise failure

    def _post(self, body: bytes, deadline: Deadline) -> Any:
        """Return an answer's JSON, read in pieces since a read timeout never ends a trickling one."""
        seconds = deadline.within(self._timeout_s)
        if seconds <= 0.0:
            raise RerankerUnavailable("no time was left to ask the rerank service")
        timeout = httpx.Timeout(seconds, connect=min(seconds, _CONNECT_TIMEOUT_S))
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        content = bytearray()
        try:
            with (
                edge("rerank_service", model=self._model),
                self._client.stream("POST", self._url, content=body, headers=headers, timeout=timeout) as response,
            ):
                _raise_for(response)
                for piece in response.iter_bytes():
                    content += piece
                    if deadline.has_passed:
                        raise RerankerUnavailable("the rerank service did not finish its answer in time")
                    if len(content) > _MAX_BODY_BYTES:
                        raise RerankerUnavailable("the rerank service's answer does not end")
            return json.loads(content)
        except httpx.HTTPError as error:
            raise RerankerUnavailable(f"the rerank service did not answer ({type(error).__name__})") from None
        except (ValueError, RecursionError):
            raise _Failed("the rerank service answered with something that is not JSON") from None


@dataclass(slots=True)
class _Asked:
    """The progress of one rerank: whether the service scored any text, and the requests left to find a bad one."""

    left: int
    has_worked: bool = False


class _Failed(RerankerUnavailable):
    """The service failed on a request without asking to wait; one of its texts may be the reason."""


def _raise_for(response: httpx.Response) -> None:
    """Raise RerankerUnavailable, Misconfigured or Rejected, without the service's message: it may repeat the text."""
    status = response.status_code
    sentence = f"the rerank service answered {status}"
    if status in _TRY_LATER or status >= 500:
        wait_s = retry_after_s(response.headers)
        kind = RerankerUnavailable if status in _TRY_LATER or wait_s is not None else _Failed
        raise kind(sentence, retry_after_s=wait_s)
    if status in _OUR_FAULT or 300 <= status < 400:
        raise Misconfigured(f"{sentence}; check the variables CHORDWISE_RERANK_URL, _DIALECT, _MODEL and _API_KEY")
    if status >= 400:
        raise Rejected(sentence)


def _text(candidate: Candidate, limit: int) -> str:
    """Return title and text, masked, cut to ``limit`` characters, never blank."""
    text = f"{candidate.title}\n{candidate.text}" if candidate.title else candidate.text
    return sendable(masked_beginning(text, limit))
