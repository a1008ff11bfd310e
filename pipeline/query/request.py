"""A query as understood, and what each channel said to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from pipeline.deadline import Deadline
from pipeline.filters.conditions import condition_as_json
from pipeline.filters.hit_conditions import HitConditions
from pipeline.query.background import Background
from pipeline.query.plan import Plan
from pipeline.records import Actor, ChannelName, Filters, Namespace, QueryId, TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """The moment from which age is counted: when the query was asked, and where its story stands, if it says so."""

    at: datetime
    story_time: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Degradation:
    """Something that was lost on the way to a complete answer. ``part``: a channel, or a step such as rerank."""

    part: str
    code: str
    detail: str


# What a model may be asked about a query.
Step = Literal["expand", "rewrite", "route", "hyde"]

# What holds where a plan leaves it open; the gateway fills plans in from the settings.
_POOL, _TIMEOUT_MS, _RETRY = 100, 800, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Understanding:
    """What was made of a query before, or while, it was asked. Empty: it is asked as it was sent.

    ``route``: how it is searched, None for nowhere. ``rewritten`` is searched instead of the text, ``keywords`` beside it
    by words; ``hypothetical`` is a passage as an answer might be, searched by meaning; ``sub_queries`` are searched as well.
    ``conversation_words`` and ``profile_words`` are searched together with the text, until a model rewrote it with them.
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
    """What a query asked for, before a route changed it."""

    plan: Plan
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One retrieval with every setting resolved. ``created_at`` and ``deadline_at`` are seconds since the epoch.

    ``asked_by`` names the key that asked. ``experiment_bucket`` is the arm of ``experiment_id`` that the query fell into.
    """

    query_id: QueryId
    tenant_id: TenantId
    request_id: str
    query_text: str
    namespaces: tuple[Namespace, ...]
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
    remarks: tuple[str, ...] = ()  # what was asked for and refused, in words; shown in ``stats``
    before_routing: OriginalRequest | None = None  # None: no route has changed it
    understanding: Understanding | None = None
    model_steps: tuple[Step, ...] = ()  # what a model is asked about it while the channels answer
    embedding_space: int | None = None  # every part of a query uses the same one, whatever is switched meanwhile
    asked_by: Actor = field(default_factory=Actor)
    cache_key: str = ""  # where the answer may be kept for the same question; empty keeps it nowhere
    stamps: Mapping[Namespace, str] = field(default_factory=dict)  # what namespaces showed when it was sent, if known
    rules_known: bool = True  # false: the tenant's profiles, and so its rules for personal data, could not be read
    missing_namespaces: tuple[Namespace, ...] = ()  # named, optional, and not there; they are not among its namespaces

    @property
    def deadline(self) -> Deadline:
        """The moment by which the caller gets an answer."""
        return Deadline(self.deadline_at)

    @property
    def channels(self) -> tuple[ChannelName, ...]:
        """The channels that are asked."""
        return tuple(self.plan.channels)

    @property
    def present(self) -> Present:
        """The moment from which the age of hits is counted."""
        return Present(at=datetime.fromtimestamp(self.created_at, UTC), story_time=self.filters.story_time)

    @property
    def asked(self) -> OriginalRequest:
        """The plan it came with, and the remarks on that."""
        return self.before_routing or OriginalRequest(plan=self.plan, remarks=self.remarks)

    @property
    def top_k(self) -> int:
        """How many chunks are returned."""
        return self.plan.top_k

    @property
    def text(self) -> str:
        """What is searched: the text as it was rewritten, or as it was sent."""
        return (self.understanding and self.understanding.rewritten) or self.query_text

    @property
    def namespaces_read(self) -> tuple[Namespace, ...]:
        """Its namespaces, and those that the options of a channel name in their place."""
        named = (name for plan in self.plan.channels.values() for name in plan.options.get("namespaces", ()))
        return tuple(dict.fromkeys((*self.namespaces, *named)))

    @property
    def namespaces_depended_on(self) -> tuple[Namespace, ...]:
        """Those that may have a part in the answer: its own, and all that its channels or its last resort may read."""
        named = (name for plan in self.plan.retrieve.channels.values() for name in plan.options.get("namespaces", ()))
        return tuple(dict.fromkeys((*self.namespaces, *named, *map(Namespace, self.plan.fallback.namespaces))))

    def pool_of(self, channel: ChannelName) -> int:
        """How many chunks a channel recalls, for each text it is asked."""
        top_k, allocation = self.plan.top_k, self.plan.retrieve.allocation
        if allocation == "double":
            return 2 * top_k
        if allocation == "balanced":  # channels may find the same chunks, and one may have to fill what another leaves
            return top_k
        plan = self.plan.channels.get(channel)
        return max((plan.pool if plan else None) or _POOL, top_k)

    def timeout_ms_of(self, channel: ChannelName) -> int:
        """How long a channel may take."""
        plan = self.plan.channels.get(channel)
        return (plan.timeout_ms if plan else None) or _TIMEOUT_MS

    def retry_of(self, channel: ChannelName) -> int:
        """How often a channel that failed is asked again."""
        plan = self.plan.channels.get(channel)
        return _RETRY if plan is None or plan.retry is None else plan.retry


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """A passage that a channel brings along, because it stands in no store of ours."""

    chunk_id: str
    document_id: str
    namespace: str
    title: str | None
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    published_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallGuard:
    """How a channel searched, and whether it may have missed something.

    ``exact``: every row was compared; ``ivfflat``: through approximate indexes, which find nearly all;
    ``ivfflat+exact_fallback``: they gave too few, so every row was. ``rows``: how many there were to be searched, about,
    None if few. ``scanned``: rows the index visited. ``may_be_short``: too few were found, and nothing else could be tried.
    ``indexes``: how many were asked; ``recall``: the least recall@10 measured of them, None if not all are measured.
    """

    method: str
    rows: int | None = None
    scanned: int | None = None
    may_be_short: bool = False
    indexes: int = 0
    recall: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """What one header task hands to the callback: always this, never an exception, and no timings in it, so that a
    redelivered task gives the same bytes. ``upper_bound`` is the highest score the channel could have given,
    ``zero`` the score of a chunk that has nothing in common with the query, ``background`` the cosine of the query with
    unrelated texts, and ``model`` the name of the model that made them, as far as the channel compares vectors;
    ``trust`` multiplies its weight: how far it understood the query.

    ``brought`` holds the passages among ``chunk_ids`` that are not in MySQL. ``guard``: how the channel made sure that
    it missed nothing, where it says so; a part of it that did not work is there as ``lost``: ``{code, detail}``.
    ``unasked``: why it was asked by the query's own words alone although there are others; None if there are none, or
    all were asked."""

    channel: ChannelName
    status: Literal["ok", "failed", "timeout"]
    chunk_ids: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    upper_bound: float | None = None
    zero: float | None = None
    background: float | None = None
    model: str | None = None
    trust: float = 1.0
    code: str | None = None
    error: str | None = None
    brought: tuple[Brought, ...] = ()
    guard: Mapping[str, Any] | None = None
    unasked: str | None = None

    @property
    def admitted(self) -> list[tuple[str, float]]:
        """The chunks, with their scores, that score no less than one that has nothing in common with the query."""
        pairs = zip(self.chunk_ids, self.scores, strict=True)
        return [pair for pair in pairs if self.zero is None or pair[1] >= self.zero]


def filters_as_sent(filters: Filters) -> dict[str, Any]:
    """The filters that were set, under the names of the contract."""

    def moment(value: datetime | None) -> str | None:
        return None if value is None else value.isoformat().replace("+00:00", "Z")

    values = {
        "type": filters.type,
        "tags": list(filters.tags) or None,
        "author": filters.author,
        "start": moment(filters.start),
        "end": moment(filters.end),
        "metadata": dict(filters.metadata) or None,
        "story_time": filters.story_time,
        "where": None if filters.where is None else condition_as_json(filters.where),
    }
    return {name: value for name, value in values.items() if value is not None}
