"""Why an answer is as it is, as the server tells it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from chordwise.decoding import Result, decode
from chordwise.errors import InvalidInput
from chordwise.results import QueryResult
from chordwise.retries import RetryPolicy, exchange
from chordwise.transport import Answer, Call, Steps, encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage(Result):
    """The order after one step, best first. ``round`` is 2 for those of a second retrieval."""

    stage: str
    round: int = 1
    hits: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped(Result):
    """A chunk that a rule left out: the number it had, and the one it needed."""

    chunk_id: str
    stage: str
    reason: str = ""
    value: float | None = None
    limit: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace(Result):
    """How an answer came about. ``explained`` says why each chunk stands where it does; ``channels`` is what each
    recalled, ``stages`` every order on the way, ``drops`` what was left out. Everything else is in ``raw``."""

    query_id: str
    explained: tuple[str, ...] = ()
    channels: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    stages: tuple[Stage, ...] = ()
    drops: tuple[Dropped, ...] = ()
    returned: tuple[str, ...] = ()
    rerank_weight: float | None = None
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    plan: Mapping[str, Any] = field(default_factory=dict)
    degradations: tuple[Mapping[str, str], ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyNot(Result):
    """Where a chunk was lost: ``detail`` says it in a sentence, ``value`` is its number, ``limit`` the one it needed.
    ``replayed``: the query had kept no trace, and was run again to find out."""

    chunk_id: str
    stage: str
    reason: str = ""
    detail: str = ""
    value: float | None = None
    limit: float | None = None
    document_id: str | None = None
    replayed: bool = False
    channels: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference(Result):
    """What other settings changed. ``plan``: the settings that differ; ``overlap``: the share of chunks both have."""

    overlap: float = 0.0
    same_order: bool = False
    plan: tuple[Mapping[str, Any], ...] = ()
    moved: tuple[Mapping[str, Any], ...] = ()
    added: tuple[Mapping[str, Any], ...] = ()
    removed: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay(Result):
    """The query asked again; ``of`` is the one before."""

    query_id: str
    of: str
    difference: Difference
    answer: QueryResult


class ExplainOperations:
    """The part of ``Operations`` that asks why."""

    _policy: RetryPolicy
    _clock: Callable[[], float]

    def trace(self, query: QueryResult | str) -> Steps[Trace]:
        """How an answer came about."""
        return decode(Trace, (yield from self._explain_call("GET", query, "trace")).json())

    def why_not(self, query: QueryResult | str, chunk_id: str) -> Steps[WhyNot]:
        """Where a chunk was lost."""
        answer = yield from self._explain_call("POST", query, "why-not", {"chunk_id": chunk_id})
        return decode(WhyNot, answer.json())

    def replay(self, query: QueryResult | str, plan: Mapping[str, Any]) -> Steps[Replay]:
        """The same with other settings. Raises InvalidInput for a plan that is no JSON."""
        return decode(Replay, (yield from self._explain_call("POST", query, "replay", {"plan": plan})).json())

    def _explain_call(
        self, method: str, query: QueryResult | str, what: str, body: Mapping[str, Any] | None = None
    ) -> Steps[Answer]:
        query_id = query if isinstance(query, str) else query.query_id
        try:
            content = None if body is None else encode(body)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"the plan is not JSON: {error}") from error
        call = Call(method=method, path=f"/v1/queries/{quote(query_id, safe='')}/{what}", content=content)
        return exchange(call, self._policy, clock=self._clock)


class ExplainMethods:
    """The methods of ``Chordwise`` that ask why."""

    _operations: ExplainOperations
    _run: Callable[[Steps[Any]], Any]

    def trace(self, query: QueryResult | str) -> Trace:
        """How an answer came about, of a query asked with ``trace=True``; of any other, ProblemError with status 404."""
        found: Trace = self._run(self._operations.trace(query))
        return found

    def why_not(self, query: QueryResult | str, chunk_id: str) -> WhyNot:
        """Where a chunk was lost on its way to the answer. ProblemError with status 404 for a query that is forgotten,
        or a chunk that is not there, and with 409 before the answer."""
        found: WhyNot = self._run(self._operations.why_not(query, chunk_id))
        return found

    def replay(self, query: QueryResult | str, plan: Mapping[str, Any]) -> Replay:
        """Ask the same again with parts of the plan changed, on the documents as they are now, and compare."""
        found: Replay = self._run(self._operations.replay(query, plan))
        return found


class AsyncExplainMethods:
    """The methods of ``AsyncChordwise`` that ask why."""

    _operations: ExplainOperations
    _run: Callable[[Steps[Any]], Coroutine[Any, Any, Any]]

    async def trace(self, query: QueryResult | str) -> Trace:
        """See ``Chordwise.trace``."""
        found: Trace = await self._run(self._operations.trace(query))
        return found

    async def why_not(self, query: QueryResult | str, chunk_id: str) -> WhyNot:
        """See ``Chordwise.why_not``."""
        found: WhyNot = await self._run(self._operations.why_not(query, chunk_id))
        return found

    async def replay(self, query: QueryResult | str, plan: Mapping[str, Any]) -> Replay:
        """See ``Chordwise.replay``."""
        found: Replay = await self._run(self._operations.replay(query, plan))
        return found
