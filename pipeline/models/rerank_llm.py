"""A reranker that has a language model judge relevance, completeness and timeliness of all candidates at once."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from pipeline.deadline import Deadline
from pipeline.errors import RerankerUnavailable
from pipeline.filters.python_filters import finite
from pipeline.models.prompt_texts import as_json, load_prompt, masked_beginning
from pipeline.models.service_client import Counted, LanguageModel, ignore_tokens
from pipeline.privacy.redaction import redact
from pipeline.records import Candidate

# Relevance gates the other two: they raise relevant candidates and cannot rescue irrelevant ones. score = r * (0.7 +
# 0.2 * c + 0.1 * t), each of r, c, t in [0, 1].
_RELEVANCE, _COMPLETENESS, _TIMELINESS = 0.7, 0.2, 0.1

_TEXT_BUDGET: Final = 24_000  # characters of candidate text in one request, about 8k tokens of English, 20k of Chinese
_LONGEST_TEXT: Final = 1_600  # of one candidate
_LONGEST_QUERY: Final = 2_000
_LONGEST_WISHES: Final = 400
_LONGEST_REPLY: Final = 100_000
_ENOUGH: Final = 0.5  # share of the candidates a reply must score to be trusted

_OBJECT: Final = re.compile(r"(?:\"([^\"{}]{1,40})\"\s{0,9}:\s{0,9})?(\{[^{}]*\})")
_TRAILING_COMMA: Final = re.compile(r",\s*\}")
_NUMBER: Final = re.compile(r"-?\d{1,9}(?:\.\d{1,9})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A language model's marks for one candidate; each number is between 0 and 10."""

    relevance: float
    completeness: float
    timeliness: float

    @property
    def score(self) -> float:
        """The combined score in [0, 1]; zero relevance gives zero."""
        detail = _RELEVANCE + _COMPLETENESS * self.completeness / 10 + _TIMELINESS * self.timeliness / 10
        return self.relevance / 10 * detail


class LlmReranker(LanguageModel):
    """One chat completion for all candidates, personal data masked, without chunk ids."""

    weight = 0.8  # a model that read the passages knows better than ranks do
    unavailable = busy = RerankerUnavailable

    def __init__(
        self, *, model: str, clock: Callable[[], datetime] = lambda: datetime.now(UTC), **service: Any
    ) -> None:
        """Connect to the service; see `LanguageModel`. Raises Misconfigured."""
        super().__init__(model=model, **service)
        self.name = f"llm:{model}"
        self._clock = clock
        self._prompt = load_prompt("rag_rerank")

    def rerank(
        self,
        query: str,
        candidates: Sequence[Candidate],
        *,
        timeout_s: float,
        wishes: str = "",
        counted: Counted = ignore_tokens,
    ) -> dict[str, float]:
        """Return scores by chunk id. ``counted`` gets the tokens of prompt and reply. Raises RerankerUnavailable: failed, late,
        or fewer than half judged."""
        if not candidates:
            return {}
        deadline = Deadline.after(min(timeout_s, self._timeout_s))
        reply = self._chat(self._messages(query, candidates, wishes), deadline, counted)
        judgements = read_judgements(reply, count=len(candidates))
        if len(judgements) < len(candidates) * _ENOUGH:
            raise RerankerUnavailable(f"the language model judged {len(judgements)} of {len(candidates)} candidates")
        return {candidates[ordinal - 1].chunk_id: judgement.score for ordinal, judgement in judgements.items()}

    def _messages(self, query: str, candidates: Sequence[Candidate], wishes: str) -> list[dict[str, str]]:
        share = min(_LONGEST_TEXT, _TEXT_BUDGET // len(candidates))
        lines = [_as_data(ordinal, candidate, share) for ordinal, candidate in enumerate(candidates, start=1)]
        return self._prompt.messages(
            today=self._clock().date().isoformat(),
            query=as_json(_shortened(redact(query), _LONGEST_QUERY)),
            wishes=as_json(_shortened(redact(wishes), _LONGEST_WISHES)),
            count=str(len(candidates)),
            candidates="\n".join(lines),
        )


def _as_data(ordinal: int, candidate: Candidate, limit: int) -> str:
    """Return one line of JSON: the candidate's text can end neither its string nor the fence around all of them."""
    fields: dict[str, Any] = {"id": ordinal}
    if candidate.title:
        fields["title"] = _shortened(redact(candidate.title), 200)
    if candidate.type:
        fields["type"] = _shortened(redact(candidate.type), 64)
    if candidate.published_at:
        fields["date"] = candidate.published_at.date().isoformat()
    fields["text"] = _shortened(masked_beginning(candidate.text, limit + 1), limit)
    return as_json(fields)


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + "…"


def read_judgements(reply: str, *, count: int) -> dict[int, Judgement]:
    """Return a reply's judgements of candidates 1 to ``count`` from its innermost JSON objects, ignoring other text and
    truncation. The first of an id counts; numbers may be strings and are clipped to 0..10. An entry without relevance
    is ignored; other missing marks take its value."""
    judgements: dict[int, Judgement] = {}
    answer = reply[-_LONGEST_REPLY:].rpartition("</think>")[2]
    for label, body in _OBJECT.findall(answer):
        for ordinal, marks in _entries(label, _loaded(body)):
            judgement = _judgement(marks)
            if judgement is not None and 1 <= ordinal <= count:
                judgements.setdefault(ordinal, judgement)
    return judgements


def _entries(label: str, fields: Mapping[str, Any]) -> list[tuple[int, Mapping[str, Any]]]:
    """Return ``{"id": 3, "relevance": 8}``, ``"3": {"relevance": 8}`` or ``{"3": 8}`` as pairs of id and fields."""
    ordinal = _number(fields.get("id"))
    if ordinal is None and "relevance" in fields:
        ordinal = _number(label)
    if ordinal is not None:
        return [(int(ordinal), fields)] if ordinal == int(ordinal) else []
    return [
        (int(key), {"relevance": value})
        for key, value in fields.items()
        if key.isascii() and key.isdigit() and len(key) < 5
    ]


def _judgement(fields: Mapping[str, Any]) -> Judgement | None:
    numbers = {mark: _number(fields.get(mark)) for mark in ("relevance", "completeness", "timeliness")}
    marks = {mark: min(10.0, max(0.0, number)) for mark, number in numbers.items() if number is not None}
    if "relevance" not in marks:
        return None
    return Judgement(**{mark: marks.get(mark, marks["relevance"]) for mark in numbers})


def _number(value: Any) -> float | None:
    """Return ``value`` as a finite number, also from ``"8"``, ``"8/10"`` or ``"[3]"``; None when it holds none."""
    if isinstance(value, str):
        match = _NUMBER.search(value)
        return float(match[0]) if match else None
    return finite(value)


def _loaded(body: str) -> dict[str, Any]:
    try:
        fields = json.loads(_TRAILING_COMMA.sub("}", body))
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}
