"""The demo's questions, their expected answers, and the comparison with actual answers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from corpora import CHINESE, ENGLISH

from chordwise import Document, QueryResult

WITHIN_FIRST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One query. At least one of ``expected`` must be among the first ``WITHIN_FIRST`` hits; with ``from_everywhere``
    one of each namespace must be among the hits."""

    text: str
    namespaces: tuple[str, ...]
    expected: tuple[str, ...]
    filters: Mapping[str, Any] = field(default_factory=dict)
    from_everywhere: bool = False
    top_k: int = 5

    def __str__(self) -> str:
        plain = {name: " ".join(value) if isinstance(value, list) else value for name, value in self.filters.items()}
        only = ", ".join(f"{name} {str(value).removesuffix('T00:00:00Z')}" for name, value in plain.items())
        return f"{self.text}  [in {' and '.join(self.namespaces)}{', only ' + only if only else ''}]"


QUESTIONS = (
    Question(
        text="priority queue on a binary heap",
        namespaces=(ENGLISH,),
        expected=("heapq", "heapq.heapify", "heapq.merge", "sched"),
    ),
    Question(
        text="compare two lists of lines and print a unified diff",
        namespaces=(ENGLISH,),
        expected=("difflib.unified_diff", "difflib"),
    ),
    Question(
        text="temporary directory that is removed with everything in it when the context ends",
        namespaces=(ENGLISH,),
        filters={"type": "class"},
        expected=("tempfile.TemporaryDirectory",),
    ),
    Question(text="消息队列里的任务为什么要做成幂等的", namespaces=(CHINESE,), expected=("zh-mq-idempotent",)),
    Question(text="MySQL 报错 1213 死锁怎么办", namespaces=(CHINESE,), expected=("zh-db-deadlock",)),
    Question(text="两路检索结果按名次融合，k 取 60 的方法", namespaces=(CHINESE,), expected=("zh-ir-rrf",)),
    Question(
        text="血压高的人吃饭要注意什么",
        namespaces=(CHINESE,),
        filters={"type": "guide", "tags": ["医疗"], "start": "2024-01-01T00:00:00Z", "end": "2024-12-31T00:00:00Z"},
        expected=("zh-med-hypertension",),
    ),
    Question(
        text="ensure_ascii 汉字 JSON serialize",
        namespaces=(ENGLISH, CHINESE),
        expected=(
            "zh-dev-json",
            "json",
            "json.dumps",
            "json.loads",
            "json.encoder.JSONEncoder",
            "json.decoder.JSONDecoder",
        ),
        from_everywhere=True,
        top_k=8,
    ),
)


def shortfalls(question: Question, result: QueryResult, corpus: Mapping[str, Document]) -> Iterator[str]:
    """Yield the faults of an answer, one sentence each; nothing if it is as expected."""
    first = [hit.document_id for hit in result.chunks[:WITHIN_FIRST]]
    if not set(first) & set(question.expected):
        yield f"none of {_listed(question.expected)} is among the first {WITHIN_FIRST}, which are {_listed(first)}"
    strangers = {hit.namespace for hit in result.chunks} - set(question.namespaces)
    if strangers:
        yield f"hits come from {_listed(sorted(strangers))}, which was not queried"
    if question.from_everywhere and {hit.namespace for hit in result.chunks} != set(question.namespaces):
        yield f"not every one of {_listed(question.namespaces)} has a hit"
    unfit = [hit.document_id for hit in result.chunks if not _fits(corpus.get(hit.document_id), question.filters)]
    if unfit:
        yield f"the filters should have kept out {_listed(unfit)}"
    if result.stats.degraded:
        yield f"the answer is degraded: {_listed([f'{loss.part}: {loss.code}' for loss in result.stats.degradations])}"


def rank_of_expected(question: Question, result: QueryResult) -> int | None:
    """Return the rank, counted from 1, of the first expected hit."""
    ranks = (rank for rank, hit in enumerate(result.chunks, start=1) if hit.document_id in question.expected)
    return next(ranks, None)


def _fits(document: Document | None, filters: Mapping[str, Any]) -> bool:
    if document is None:
        return False
    published = _moment(document.published_at)
    start, end = _moment(filters.get("start")), _moment(filters.get("end"))
    return (
        filters.get("type", document.type) == document.type
        and filters.get("author", document.author) == document.author
        and set(filters.get("tags", ())) <= set(document.tags)
        and (start is None or (published is not None and published >= start))
        and (end is None or (published is not None and published <= end))
    )


def _moment(value: datetime | str | None) -> datetime | None:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


def _listed(names: Iterable[str] | Sequence[str]) -> str:
    return ", ".join(names) or "nothing"
