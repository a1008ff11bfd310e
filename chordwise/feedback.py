"""What people thought of hits, and the judgments that makes."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypedDict, Unpack
from urllib.parse import quote

from chordwise.decoding import Result, decode
from chordwise.documents import plain
from chordwise.errors import InvalidInput, UnexpectedAnswer
from chordwise.results import QueryResult
from chordwise.retries import RetryPolicy, exchange
from chordwise.transport import Answer, Call, Steps, encode

_PER_PAGE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback(Result):
    """One rating of one hit: good, bad or click. ``created_at``: when it was first given, ``rated_at``: when last.
    ``place`` in the answer counts from 1, and is None for what the answer did not hold."""

    feedback_id: str
    query_id: str
    rating: str
    namespace: str
    document_id: str
    chunk_id: str | None = None
    query_text: str = ""
    note: str | None = None
    place: int | None = None
    score: float | None = None
    profile: str = ""
    config_version: int | None = None
    experiment_id: str | None = None
    experiment_bucket: str | None = None
    session_id: str | None = None
    created_at: datetime | None = None
    rated_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedText(Result):
    """A question that people judged answers to; ``relevant`` has the grade of each document: 2 good, 1 opened, 0 bad."""

    query_id: str
    query_text: str
    tenant_id: str = ""
    namespaces: tuple[str, ...] = ()
    relevant: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmResult(Result):
    """What people thought of the answers of one arm of an experiment."""

    bucket: str
    good: int = 0
    bad: int = 0
    clicks: int = 0
    queries: int = 0
    sessions: int = 0
    mean_click_place: float | None = None


class FeedbackKeywords(TypedDict, total=False):
    """What feedback is about: a chunk or a document, the namespace of the latter where several hold it; who says it, and
    why."""

    chunk_id: str | None
    document_id: str | None
    namespace: str | None
    note: str | None
    session_id: str | None


class FeedbackOperations:
    """The part of ``Operations`` for feedback. Every call may be sent twice."""

    _policy: RetryPolicy
    _clock: Callable[[], float]

    def feedback(self, query: QueryResult | str, rating: str, said: FeedbackKeywords) -> Steps[Feedback]:
        """Say what a hit was worth; see ``Chordwise.feedback``."""
        given = {name: value for name, value in said.items() if value is not None}
        if ("chunk_id" in given) == ("document_id" in given):
            raise InvalidInput("feedback is about either a chunk or a document")
        query_id = query if isinstance(query, str) else query.query_id
        path = f"/v1/queries/{quote(query_id, safe='')}/feedback"
        answer = yield from self._feedback_call("POST", path, content=encode({"rating": rating, **given}))
        return decode(Feedback, answer.json())

    def feedback_given(self, asked: Mapping[str, Any], *, limit: int | None) -> Steps[list[Feedback]]:
        """Feedback that fits every filter given, the newest first."""
        entries = yield from self._feedback_pages("/v1/feedback", asked, limit=limit)
        return [decode(Feedback, entry) for entry in entries]

    def judgments(self, namespace: str, *, min_votes: float | None) -> Steps[list[JudgedText]]:
        """Every judged question."""
        asked = {"namespace": namespace, "min_votes": min_votes}
        entries = yield from self._feedback_pages("/v1/feedback/judgments", asked, limit=None)
        return [decode(JudgedText, entry) for entry in entries]

    def take_back(self, feedback_id: str) -> Steps[None]:
        """Forget one rating."""
        yield from self._feedback_call("DELETE", f"/v1/feedback/{quote(feedback_id, safe='')}")

    def experiment_results(self, experiment_id: str) -> Steps[list[ArmResult]]:
        """Counts of feedback by arm."""
        path = f"/v1/experiments/{quote(experiment_id, safe='')}/results"
        said = (yield from self._feedback_call("GET", path)).json()
        if not isinstance(said, dict) or not isinstance(said.get("buckets"), list):
            raise UnexpectedAnswer("the results of an experiment come without buckets")
        return [decode(ArmResult, entry) for entry in said["buckets"]]

    def _feedback_pages(self, path: str, asked: Mapping[str, Any], *, limit: int | None) -> Steps[list[Any]]:
        found: list[Any] = []
        cursor: str | None = None
        while limit is None or len(found) < limit:
            size = _PER_PAGE if limit is None else min(_PER_PAGE, limit - len(found))
            wanted = {**asked, "limit": size, "cursor": cursor}
            params = tuple((name, str(plain(value))) for name, value in wanted.items() if value is not None)
            page = (yield from self._feedback_call("GET", path, params=params)).json()
            if not isinstance(page, dict) or not isinstance(page.get("data"), list):
                raise UnexpectedAnswer(f"{path} does not answer with a list")
            found += page["data"]
            cursor = page.get("next_cursor")
            if not cursor:
                break
        return found

    def _feedback_call(
        self, method: str, path: str, *, params: tuple[tuple[str, str], ...] = (), content: bytes | None = None
    ) -> Steps[Answer]:
        return exchange(Call(method=method, path=path, params=params, content=content), self._policy, clock=self._clock)


class FeedbackMethods:
    """The methods of ``Chordwise`` for feedback."""

    _operations: FeedbackOperations
    _run: Callable[[Steps[Any]], Any]

    def feedback(self, query: QueryResult | str, rating: str, **said: Unpack[FeedbackKeywords]) -> Feedback:
        """Say what a hit of a query was worth: ``good``, ``bad``, or ``click`` for having opened it.

        ``said``: ``chunk_id`` or ``document_id``, and perhaps more, see FeedbackKeywords. The same said twice counts
        once. ProblemError with status 404 once the query is forgotten, after an hour by default.
        """
        found: Feedback = self._run(self._operations.feedback(query, rating, said))
        return found

    def feedback_given(
        self,
        *,
        since: datetime | str | None = None,
        namespace: str | None = None,
        rating: str | None = None,
        limit: int | None = 100,
    ) -> list[Feedback]:
        """Feedback that fits every filter given, the newest first; ``limit`` None for all."""
        asked = {"since": since, "namespace": namespace, "rating": rating}
        return list(self._run(self._operations.feedback_given(asked, limit=limit)))

    def take_back(self, feedback: Feedback | str) -> None:
        """Forget a rating; one that is not there raises ProblemError with status 404."""
        self._run(self._operations.take_back(_id(feedback)))

    def judgments(self, *, namespace: str, min_votes: float | None = None) -> list[JudgedText]:
        """The questions that people judged answers to, with the grades of their documents."""
        return list(self._run(self._operations.judgments(namespace, min_votes=min_votes)))

    def experiment_results(self, experiment_id: str) -> list[ArmResult]:
        """What people thought of each arm's answers; the first is what the others are compared with."""
        return list(self._run(self._operations.experiment_results(experiment_id)))


class AsyncFeedbackMethods:
    """The methods of ``AsyncChordwise`` for feedback."""

    _operations: FeedbackOperations
    _run: Callable[[Steps[Any]], Coroutine[Any, Any, Any]]

    async def feedback(self, query: QueryResult | str, rating: str, **said: Unpack[FeedbackKeywords]) -> Feedback:
        """See ``Chordwise.feedback``."""
        found: Feedback = await self._run(self._operations.feedback(query, rating, said))
        return found

    async def feedback_given(
        self,
        *,
        since: datetime | str | None = None,
        namespace: str | None = None,
        rating: str | None = None,
        limit: int | None = 100,
    ) -> list[Feedback]:
        """See ``Chordwise.feedback_given``."""
        asked = {"since": since, "namespace": namespace, "rating": rating}
        return list(await self._run(self._operations.feedback_given(asked, limit=limit)))

    async def take_back(self, feedback: Feedback | str) -> None:
        """See ``Chordwise.take_back``."""
        await self._run(self._operations.take_back(_id(feedback)))

    async def judgments(self, *, namespace: str, min_votes: float | None = None) -> list[JudgedText]:
        """See ``Chordwise.judgments``."""
        return list(await self._run(self._operations.judgments(namespace, min_votes=min_votes)))

    async def experiment_results(self, experiment_id: str) -> list[ArmResult]:
        """See ``Chordwise.experiment_results``."""
        return list(await self._run(self._operations.experiment_results(experiment_id)))


def _id(feedback: Feedback | str) -> str:
    return feedback if isinstance(feedback, str) else feedback.feedback_id
