"""A reranker over HTTP, in one of `DIALECTS`: JSON over POST with a bearer key."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import httpx

from pipeline.deadline import Deadline
from pipeline.errors import Misconfigured, Rejected, RerankerUnavailable
from pipeline.filters.python_filters import finite
from pipeline.models.prompt_texts import masked_beginning, sendable
from pipeline.models.retries import bounded, keep_trying
from pipeline.outbound.web import retry_after_s
from pipeline.records import Candidate
from pipeline.telemetry.tracing import edge

_LARGEST_EXPONENT: Final = 700.0  # beyond it, exp overflows
_LONGEST_DOCUMENT: Final = 4096  # tokens of one document that Cohere reads; its own default
_TEXT_BUDGET: Final = 200_000  # characters of candidate text for one query, which bounds cost and request size
_LONGEST_TEXT: Final = 6_000  # of one candidate
_LONGEST_QUERY: Final = 2_000
_MAX_BODY_BYTES: Final = 4 * 1024 * 1024
_CONNECT_TIMEOUT_S: Final = 2.0
_RETRIES: Final = 1
_FIRST_WAIT_S: Final = 0.1  # a user is waiting for the answer
_TRY_LATER: Final = frozenset({408, 409, 425, 429})
_OUR_FAULT: Final = frozenset({401, 403, 404, 405, 424})  # 424: TEI serves a model that is no reranker


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The request and response format of one kind of service. ``results``: the key of its list, None for the answer
    itself. ``most_texts``: per request. ``body``: builds a request."""

    path: str
    body: Callable[[str, str, Sequence[str]], dict[str, Any]]
    results: str | None = "results"
    score: str = "relevance_score"
    logits: bool = False
    most_texts: int = 1000

    def scores_in(self, answer: Any, *, count: int) -> dict[int, float]:
        """Return the scores of texts 0 to ``count - 1`` in [0, 1]: clipped, or the sigmoid of logits. Order,
        repetitions (the first counts), unknown indexes and invalid scores do no harm."""
        entries = answer.get(self.results) if self.results and isinstance(answer, Mapping) else answer
        scores: dict[int, float] = {}
        for entry in entries if isinstance(entries, list) else ():
            if not isinstance(entry, Mapping):
                continue
            index, score = entry.get("index"), finite(entry.get(self.score))
            if type(index) is int and 0 <= index < count and score is not None:
                scores.setdefault(index, _sigmoid(score) if self.logits else min(1.0, max(0.0, score)))
        return scores


def _sigmoid(logit: float) -> float:
    return 1.0 / (1.0 + math.exp(min(-logit, _LARGEST_EXPONENT)))


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
    "voyage": Dialect(
        path="/v1/rerank", results="data", body=_documents("top_k", return_documents=False, truncation=True)
    ),
    # 32 texts are the default limit of its servers.
    "tei": Dialect(path="/rerank", results=None, score="score", body=_tei, logits=True, most_texts=32),
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
        """Return scores by index in ``texts``, in as many requests as needed; one failure fails all."""
        scores_by_index: dict[int, float] = {}
        size = self._dialect.most_texts
        for start in range(0, len(texts), size):
            batch = texts[start : start + size]
            body = json.dumps(self._dialect.body(self._model, query, batch), ensure_ascii=False).encode()
            answer = keep_trying(
                partial(self._post, body, deadline), retries=_RETRIES, deadline=deadline, first_wait_s=_FIRST_WAIT_S
            )
            scores = self._dialect.scores_in(answer, count=len(batch))
            scores_by_index |= {start + index: score for index, score in scores.items()}
        return scores_by_index

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
            raise RerankerUnavailable("the rerank service answered with something that is not JSON") from None


def _raise_for(response: httpx.Response) -> None:
    """Raise RerankerUnavailable, Misconfigured or Rejected, without the service's message: it may repeat the text."""
    status = response.status_code
    sentence = f"the rerank service answered {status}"
    if status in _TRY_LATER or status >= 500:
        raise RerankerUnavailable(sentence, retry_after_s=retry_after_s(response.headers))
    if status in _OUR_FAULT or 300 <= status < 400:
        raise Misconfigured(f"{sentence}; check the variables CHORDWISE_RERANK_URL, _DIALECT, _MODEL and _API_KEY")
    if status >= 400:
        raise Rejected(sentence)


def _text(candidate: Candidate, limit: int) -> str:
    """Return title and text, masked, cut to ``limit`` characters, never blank."""
    text = f"{candidate.title}\n{candidate.text}" if candidate.title else candidate.text
    return sendable(masked_beginning(text, limit))
