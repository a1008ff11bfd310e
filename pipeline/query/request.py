"""A query with every setting resolved, and the result of each channel."""

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from chordwise.contract.answer import Degradation as Degradation
from chordwise.contract.tenant import AuditActor
from pipeline.deadline import Deadline
from pipeline.filters.python_filters import HitConditions, condition_as_json
from pipeline.filters.readers import Principals
from pipeline.query.keywords import Background
from pipeline.query.plan import Plan, SelectionPlan
from pipeline.records import Caps, ChannelName, ChunkId, Comparison, Compound, Filters, Namespace, QueryId, TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryMoment:
    """The moment from which age is counted: when the query was sent, and its story time, if given."""

    at: datetime
    story_time: int | None = None


def caps_of(selection: SelectionPlan) -> Caps | None:
    """Return the caps of a plan on documents and contents; None without any."""
    contents, per_document = selection.dedupe == "content", 1 if selection.dedupe == "document" else None
    per_document = per_document or selection.per_document
    return Caps(per_document=per_document, contents=contents) if contents or per_document else None


T = TypeVar("T")

# The steps of a model for a query.
Step = Literal["expand", "rewrite", "route", "hyde"]

# Defaults for open settings of a plan; the gateway fills plans in from the settings.
_POOL, _TIMEOUT_MS, _RETRY = 100, 800, 1
_CLOCKS_APART_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Understanding:
    """The understanding of a query by rules and models. Empty: search the text as it was sent.

    ``route``: the search method, None to search nothing. ``rewritten`` is searched instead of the text, ``keywords``
    beside it by words; ``hypothetical`` is a passage like an answer, searched by meaning; ``sub_queries`` are searched
    as well. ``conversation_words`` and ``profile_words`` are searched together with the text, until a model rewrites it
    with them.
    """

    route: Literal["hybrid", "full_text", "semantic"] | None = "hybrid"
    rewritten: str | None = None
    keywords: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    sub_queries: tuple[str, ...] = ()
    hypothetical: str | None = None
    conversation_words: tuple[str, ...] = ()
    profile_words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginalRequest:
    """The plan and remarks of a query before a route changed them."""

    plan: Plan
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One retrieval with every setting resolved. ``created_at`` and ``deadline_at`` are seconds since the epoch.

    ``principals``: the caller's; None sees every document. ``asked_by``: the API key that sent it.
    ``experiment_bucket``: the query's arm of ``experiment_id``.
    """

    query_id: QueryId
    tenant_id: TenantId
    request_id: str
    query_text: str
    namespaces: tuple[Namespace, ...]
    principals: tuple[str, ...] | None = ()
    filters: Filters = field(default_factory=Filters)
    conditions: HitConditions | None = None  # judged on the hits themselves
    background: Background | None = None
    plan: Plan = field(default_factory=Plan)
    created_at: float
    deadline_at: float
    profile: str = "default"
    config_version: int = 1
    session_id: str | None = None
    experiment_id: str | None = None
    experiment_bucket: str | None = None
    trace: bool = False
    exclude: tuple[ChunkId, ...] = ()  # chunks that the caller has, and the answer leaves out
    remarks: tuple[str, ...] = ()  # requested but refused settings, in words; shown in ``stats``
    before_routing: OriginalRequest | None = None  # None: no route has changed it
    understanding: Understanding | None = None
    model_steps: tuple[Step, ...] = ()  # the model's steps while the channels search
    embedding_space: int | None = None  # every part of a query uses the same one, whatever is switched meanwhile
    asked_by: AuditActor = field(default_factory=AuditActor)
    cache_key: str = ""  # where the answer may be kept for the same question; empty keeps it nowhere
    stamps: Mapping[Namespace, str] = field(
        default_factory=dict
    )  # the namespaces' revisions when it was sent, if known
    rules_known: bool = True  # false: the tenant's profiles, and so its rules for personal data, could not be read
    missing_namespaces: tuple[Namespace, ...] = ()  # named, optional, and not there; they are not among its namespaces
    caps: Annotated[Caps | None, Field(exclude=True)] = None  # for channels that are asked again, in one process

    @property
    def reads_as(self) -> Principals:
        """The caller's principals; None sees every document."""
        return None if self.principals is None else frozenset(self.principals)

    @property
    def deadline(self) -> Deadline:
        """The moment by which the caller gets an answer."""
        return Deadline(self.deadline_at)

    @property
    def channels(self) -> tuple[ChannelName, ...]:
        """The channels to search."""
        return tuple(self.plan.channels)

    @property
    def present(self) -> QueryMoment:
        """The moment from which the age of hits is counted."""
        return QueryMoment(at=datetime.fromtimestamp(self.created_at, UTC), story_time=self.filters.story_time)

    @property
    def since(self) -> datetime:
        """The moment at which the query is taken to have begun: hosts' clocks may differ by 0.2 seconds."""
        return datetime.fromtimestamp(self.created_at - _CLOCKS_APART_S, UTC)

    @property
    def original(self) -> OriginalRequest:
        """The plan and remarks before any route changed them."""
        return self.before_routing or OriginalRequest(plan=self.plan, remarks=self.remarks)

    @property
    def top_k(self) -> int:
        """The number of chunks to return."""
        return self.plan.top_k

    @property
    def text(self) -> str:
        """The text to search: rewritten, or as it was sent."""
        return (self.understanding and self.understanding.rewritten) or self.query_text

    @property
    def namespaces_read(self) -> tuple[Namespace, ...]:
        """Its namespaces, and those that options of a channel name instead of them."""
        named = (name for plan in self.plan.channels.values() for name in plan.options.get("namespaces", ()))
        return tuple(dict.fromkeys((*self.namespaces, *named)))

    @property
    def namespaces_depended_on(self) -> tuple[Namespace, ...]:
        """The namespaces that may contribute to the answer: its own, its channels' and its last resort's."""
        named = (name for plan in self.plan.retrieve.channels.values() for name in plan.options.get("namespaces", ()))
        return tuple(dict.fromkeys((*self.namespaces, *named, *map(Namespace, self.plan.fallback.namespaces))))

    def pool_of(self, channel: ChannelName) -> int:
        """Return how many chunks a channel recalls for each text."""
        top_k, allocation = self.plan.top_k + len(self.exclude), self.plan.retrieve.allocation
        if allocation == "double":
            return 2 * top_k
        if allocation == "balanced":  # channels may find the same chunks, so one may have to fill the share of another
            return top_k
        plan = self.plan.channels.get(channel)
        return max((plan.pool if plan else None) or _POOL, top_k)

    def timeout_ms_of(self, channel: ChannelName) -> int:
        """Return the time limit of a channel."""
        plan = self.plan.channels.get(channel)
        return (plan.timeout_ms if plan else None) or _TIMEOUT_MS

    def retry_of(self, channel: ChannelName) -> int:
        """Return the number of retries of a channel that failed."""
        plan = self.plan.channels.get(channel)
        return _RETRY if plan is None or plan.retry is None else plan.retry


@dataclass(frozen=True, slots=True, kw_only=True)
class SuppliedPassage:
    """A passage that a channel supplies with its text, because it is in none of our stores."""

    chunk_id: str
    document_id: str
    namespace: str
    title: str | None
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    published_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallGuard:
    """The method of a channel's search, and whether it may have missed chunks.

    ``exact``: every row was compared; ``hnsw``, ``ivfflat``: through approximate indexes, which find nearly all;
    ``…+exact_fallback``: they gave too few, so every row was compared. ``rows``: the approximate number of rows
    to search, None if few. ``scanned``: rows the index visited. ``may_be_short``: too few were found, and no other
    method was left. ``indexes``: the number of indexes searched; ``recall``: their least measured recall@10, None if
    one is not measured.
    """

    method: str
    rows: int | None = None
    scanned: int | None = None
    may_be_short: bool = False
    indexes: int = 0
    recall: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """The hits of a channel, best first. ``upper_bound``: the highest possible score of this query. ``zero``: the score
    of a chunk with nothing in common with it: less is no match. ``background``: the cosine of the query with unrelated
    texts. ``model``: the embedding model of the comparison. ``trust``, in [0, 1]: how well the channel understood the
    query; with the plan's reading gate its weight is multiplied by it. ``beyond_words``, in
    [0, 1]: how well its model recognises passages that hold no word of the query. ``supplied``: passages that are in
    none of our stores. ``guard``: how the channel searched; a failed part of it is there as ``lost``: ``{code, detail}``."""

    chunk_ids: tuple[ChunkId, ...] = ()
    scores: tuple[float, ...] = ()
    upper_bound: float | None = None
    zero: float | None = None
    background: float | None = None
    model: str | None = None
    trust: float = 1.0
    beyond_words: float = 0.0
    supplied: tuple[SuppliedPassage, ...] = ()
    guard: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope(Recalled):
    """The result of one header task for the callback: never an exception, and without timings, so that a redelivered
    task gives the same bytes. ``unasked``: why only the query's own words were searched although there are other
    wordings; None if there are none, or all were searched."""

    channel: ChannelName
    status: Literal["ok", "failed", "timeout"]
    code: str | None = None
    error: str | None = None
    unasked: str | None = None

    @property
    def admitted(self) -> list[tuple[str, float]]:
        """The chunks, with their scores, that score no less than one that has nothing in common with the query."""
        pairs = zip(self.chunk_ids, self.scores, strict=True)
        return [pair for pair in pairs if self.zero is None or pair[1] >= self.zero]


def missing_namespaces(
    names: Sequence[Namespace], existing: Collection[str], *, optional: Collection[str]
) -> tuple[tuple[Namespace, ...], tuple[Namespace, ...]]:
    """Return a query's namespaces that do not exist, and those of them that it cannot do without: all of them if none of its
    namespaces exists, else those that are not optional."""
    missing = tuple(name for name in names if name not in existing)
    some_exist = len(missing) < len(names)
    return missing, tuple(name for name in missing if not (some_exist and name in optional))


def filters_as_sent(filters: Filters) -> dict[str, Any]:
    """Return the filters that were set, under the names of the contract."""
    unsent = ("pairs", "readers")
    values = {field.name: getattr(filters, field.name) for field in fields(filters) if field.name not in unsent}
    return {name: _sent(value) for name, value in values.items() if value not in (None, (), {})}


def _sent(value: Any) -> Any:
    match value:
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case tuple():
            return list(value)
        case Mapping():
            return dict(value)
        case Comparison() | Compound():
            return condition_as_json(value)
    return value


def copied(kind: type[T], record: Any, **given: Any) -> T:
    """Return a ``kind`` whose fields are ``given`` or those of the same name of another record."""
    shared = _shared_fields(kind, type(record))  # type: ignore[arg-type]  # mypy takes no class for hashable
    return kind(**{name: getattr(record, name) for name in shared} | given)


@functools.cache
def _shared_fields(kind: Any, other: Any) -> frozenset[str]:
    return frozenset(field.name for field in fields(kind)) & frozenset(field.name for field in fields(other))
