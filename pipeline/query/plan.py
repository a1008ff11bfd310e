"""The plan of one query: every setting of retrieval, resolved. A profile is the JSON form of a plan, whole or in part;
a request overrides parts of it. `read_plan` merges such layers and checks the result once."""

import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Annotated, Any, Final, Literal

import orjson
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from pipeline.filters.python_filters import METADATA, SHOWN_FIELDS
from pipeline.filters.used_fields import COUNTED
from pipeline.privacy.redaction import MaskedKind
from pipeline.records import CHANNEL_ALIASES, ChannelName
from pipeline.setting_values import RRF_K, ChannelTime

Milliseconds = Annotated[int, Field(ge=1, le=60_000)]
Weight = Annotated[float, Field(ge=0, le=100)]
Share = Annotated[float, Field(ge=0, le=1)]
Name = Annotated[str, Field(min_length=1, max_length=64)]


def _installed(name: str) -> str:
    try:
        channel = ChannelName(name)
    except ValueError:
        raise ValueError("is no channel of this installation") from None
    if channel is ChannelName.FALLBACK:
        raise ValueError("is what last-resort hits are labelled with, and no channel")
    return channel.value


MOST_FACETS: Final = 8
_MOST_GROUPED: Final = 1000  # hits of all groups, as many as an answer has


def _countable(name: str) -> str:
    """Return the field of facets. Raises ValueError for one whose values are not counted."""
    if name not in COUNTED and not (name.startswith(METADATA) and name != METADATA):
        raise ValueError(f"is none of {', '.join(COUNTED)} and {METADATA}<key>")
    return name


def _grouping(name: str) -> str:
    """Return the field of groups. Raises ValueError for a key that a passage's own field hides in hits."""
    key = _countable(name).removeprefix(METADATA)
    if name.startswith(METADATA) and key in SHOWN_FIELDS:
        raise ValueError(f"is hidden in hits by their own {key}")
    return name


FieldName = Annotated[str, Field(min_length=1, max_length=128)]
FacetField = Annotated[FieldName, AfterValidator(_countable)]
GroupField = Annotated[FieldName, AfterValidator(_grouping)]
ChannelKey = Annotated[str, AfterValidator(_installed)]
Method = Literal["hybrid", "full_text", "semantic"]
_METHOD_OF = {"keyword": "full_text", "semantic": "semantic"}


def method_named(name: Any) -> Any:
    """Return the method that searches only the channel of this name or alias; any other value unchanged."""
    return _METHOD_OF.get(CHANNEL_ALIASES.get(name, name), name) if isinstance(name, str) else name


NamedMethod = Annotated[Method, BeforeValidator(method_named)]
Lane = Literal["chord", "in_process"]


class StrictRecord:
    """The base of records whose JSON form may have no further fields."""

    __slots__ = ()
    __pydantic_config__ = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelPlan(StrictRecord):
    """One channel's part. A weight of 0 excludes it. None: the installation's setting holds.

    ``pool``: how many chunks it recalls. ``min_score``: the least score, by the channel's own measure, that it recalls.
    ``options``: those of the channel alone.
    """

    weight: Weight = 1.0
    timeout_ms: ChannelTime | None = None
    retry: Annotated[int, Field(ge=0, le=3)] | None = None
    pool: Annotated[int, Field(ge=1, le=2000)] | None = None
    min_score: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionPlan(StrictRecord):
    """The fusion of the channels' rankings. ``k`` belongs to rrf, ``normalisation`` to weighted, ``plugin`` names the
    entry point of custom. ``gate``: exclude a channel whose best hit reaches less than this share of its highest
    possible score, or that scores all its hits alike. ``reading_gate``: a channel whose model cannot read the whole
    query counts by the part it reads, and the share of the query's words in a candidate counts for the rest; without it
    weights are taken as they are. ``query_weights``: the semantic channel counts by what both searches found
    for the query (`ranking.query_weights`). ``feedback``: let the candidates' scores follow those of their
    neighbours."""

    strategy: Literal["rrf", "weighted", "custom"] = "weighted"
    k: Annotated[int, Field(ge=0, le=10_000)] = RRF_K
    normalisation: Literal["min_max", "z_score"] = "min_max"
    plugin: Name | None = None
    gate: Share | None = None
    reading_gate: bool = False
    query_weights: bool = False
    feedback: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DecayPlan(StrictRecord):
    """The loss of score with age, measured on ``by``. ``half_life``: halved every ``half_life_days``; ``hyperbolic``:
    ``1 / (1 + age / scale)``, age in the unit of ``by`` (seconds, or the story's own); ``window``: full score up to
    ``scale``, ``floor`` beyond. No score falls below ``floor``; a hit without a date keeps its score."""

    shape: Literal["half_life", "hyperbolic", "window"] = "half_life"
    half_life_days: Annotated[float, Field(gt=0, le=100_000)] = 30.0
    scale: Annotated[float, Field(gt=0)] = 1_000_000.0
    by: Literal["published_at", "updated_at", "story_time"] = "published_at"
    floor: Share = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityPlan(StrictRecord):
    """The grades of hits, read from metadata. Grades go from best to worst; hits of the worst are dropped if there are
    more than ``enough`` hits; an ungraded hit counts as the worst. Hits whose scores differ by less than the share
    ``near_tie`` of the best score are ordered by grade, then newest first."""

    key: Name = "quality_grade"
    grades: tuple[Name, ...] = ("优秀", "良好", "一般")
    enough: Annotated[int, Field(ge=0, le=1000)] = 15
    near_tie: Share = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionPlan(StrictRecord):
    """The selection of the hits to return. ``per_document``: the most hits of one document. ``diversity``: 0 keeps the
    order, 1 considers only novelty (maximal marginal relevance, lambda = 1 - diversity). ``group_by``: return the best
    ``top_k`` values of a field, with up to ``group_size`` hits of each."""

    dedupe: Literal["chunk", "document", "content"] = "chunk"
    per_document: Annotated[int, Field(ge=1, le=1000)] | None = None
    diversity: Share = 0.0
    quality: QualityPlan | None = None
    group_by: GroupField | None = None
    group_size: Annotated[int, Field(ge=1, le=100)] = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderPlan(StrictRecord):
    """Thresholds on similarity, tried in order until ``min_results`` hits reach one; after the last, those that reach
    the last. Nothing is recalled again."""

    thresholds: Annotated[tuple[Share, ...], Field(min_length=1, max_length=10)] = (0.7, 0.6, 0.5)
    min_results: Annotated[int, Field(ge=1, le=1000)] = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondRetrievalPlan(StrictRecord):
    """The conditions of a second retrieval, and its changes. At least one condition and one change.

    A result is poor if it has fewer than ``min_hits`` chunks, chunks of fewer than ``min_documents`` documents, or no
    chunk with a confidence of ``min_score``. The other fields replace those of the plan.
    """

    min_hits: Annotated[int, Field(ge=1)] | None = None
    min_score: Share | None = None
    min_documents: Annotated[int, Field(ge=1)] | None = None
    score_threshold: Share | None = None
    pool: Annotated[int, Field(ge=1, le=2000)] | None = None
    method: NamedMethod | None = None
    expand: bool | None = None
    rerank: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievePlan(StrictRecord):
    """The channels to search and the composition of their hits. ``allocation``: how many chunks each channel recalls
    for each text. ``pool``: the channel's pool, at least ``top_k``; ``balanced``: ``top_k``, and every channel gets an
    equal share of the returned hits (`ranking.selection`); ``double``: ``2 * top_k``. ``score_threshold`` is compared
    with a hit's confidence. ``requires_story_time``: refuse a query without ``story_time``, which would reveal the
    whole story; decay by ``story_time`` requires it as well. ``optional_namespaces``: namespaces that may be missing; a
    query that names a missing one is degraded and searches the others."""

    method: NamedMethod = "hybrid"
    requires_story_time: bool = False
    optional_namespaces: Annotated[tuple[Name, ...], Field(max_length=32)] = ()
    allocation: Literal["pool", "balanced", "double"] = "pool"
    score_threshold: Share = 0.0
    channels: Mapping[ChannelKey, ChannelPlan] = field(default_factory=dict)
    fusion: FusionPlan = field(default_factory=FusionPlan)
    time_decay: DecayPlan | None = None
    selection: SelectionPlan = field(default_factory=SelectionPlan)
    ladder: LadderPlan | None = None
    second: SecondRetrievalPlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankPlan(StrictRecord):
    """Reranking. ``provider``: ``auto`` is the rerank service where one is configured, else the language model, else
    local. ``threshold``: drop hits below it or without a score, but keep the best so that ``min_results`` remain.
    ``weight``: the share of the rerank score; None is the reranker's own."""

    enabled: bool = True
    provider: Literal["auto", "local", "llm", "http"] = "auto"
    top_n: Annotated[int, Field(ge=1, le=200)] = 20
    threshold: Share | None = None
    min_results: Annotated[int, Field(ge=0, le=1000)] = 1
    weight: Share | None = None
    budget_ms: Milliseconds = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderstandPlan(StrictRecord):
    """The understanding of a query before retrieval. Every step but ``rules`` needs a language model; without one, or
    when it is late, the raw query and its own keywords are used. ``expand``: the most sub-queries."""

    enabled: bool = True
    router: Literal["off", "rules", "llm"] = "off"
    rewrite: bool = False
    keywords: bool = False
    entities: bool = False
    expand: Annotated[int, Field(ge=0, le=8)] = 4
    hyde: bool = False
    budget_ms: Milliseconds = 1200


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackPlan(StrictRecord):
    """The last resort when no hit has a confidence of ``threshold``: the best answers of curated question-answer pairs,
    and a hint for people. Both are marked ``fallback``."""

    enabled: bool = True
    threshold: Share = 0.4
    faq: bool = False
    namespaces: tuple[Name, ...] = ()
    hint: Annotated[str, Field(max_length=2000)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOptions(StrictRecord):
    """The composition of the hits for a prompt, in a query that asks for it. ``max_tokens`` bounds the whole text.
    ``window`` and ``parents``: the surroundings of a hit to read with it; None leaves it to the chunking of its document;
    ``whole_document``: the whole document if it takes at most half of the budget. ``header``: the line above a passage;
    ``story`` is its chapter and story time. ``passages``: ``dialogue`` shows question-answer pairs as messages of user and
    assistant. ``entities``: include the states of the entities that the hits name."""

    format: Literal["markdown", "text"] = "markdown"
    max_tokens: Annotated[int, Field(ge=1, le=32_000)] = 2000
    window: Annotated[int, Field(ge=0, le=10)] | None = None
    parents: bool | None = None
    whole_document: bool = False
    header: Literal["title", "story", "none"] = "title"
    over_budget: Literal["skip", "stop"] = "skip"
    passages: Literal["text", "dialogue"] = "text"
    entities: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyPlan(StrictRecord):
    """The personal data to mask in answers; requests to models are always masked."""

    mask_answers: bool = False
    kinds: tuple[MaskedKind, ...] = tuple(MaskedKind)


@dataclass(frozen=True, kw_only=True)
class Plan(StrictRecord):
    """Every setting of one retrieval. The fields are those of a profile. ``context``: None for an answer without one;
    ``highlight``: mark the words of the query in the hits; ``facets``: count the values of these fields. ``lane``: the
    processes that answer a waiting caller, workers through the broker or the gateway's own; the answer is the same."""

    top_k: Annotated[int, Field(ge=1, le=1000)] = 10
    deadline_ms: Annotated[int, Field(ge=200, le=60_000)] = 3000
    retrieve: RetrievePlan = field(default_factory=RetrievePlan)
    rerank: RerankPlan = field(default_factory=RerankPlan)
    understand: UnderstandPlan = field(default_factory=UnderstandPlan)
    fallback: FallbackPlan = field(default_factory=FallbackPlan)
    context: ContextOptions | None = None
    highlight: bool = False
    facets: Annotated[tuple[FacetField, ...], Field(max_length=MOST_FACETS)] = ()
    privacy: PrivacyPlan = field(default_factory=PrivacyPlan)
    lane: Lane = "chord"

    @functools.cached_property
    def channels(self) -> Mapping[ChannelName, ChannelPlan]:
        """The channels to search: those of the method with a weight above 0, in the order of the plan."""
        only = {"full_text": ChannelName.KEYWORD, "semantic": ChannelName.SEMANTIC}.get(self.retrieve.method)
        named = {ChannelName(name): channel for name, channel in self.retrieve.channels.items()}
        return {name: channel for name, channel in named.items() if channel.weight > 0 and only in (None, name)}


class PlanFlaw(ValueError):  # no PipelineError: the reader of the plan decides on the response
    """A plan with contradictions. ``flaws``: JSON pointers into it, each with a message."""

    def __init__(self, flaws: Sequence[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{pointer} {detail}" for pointer, detail in flaws))
        self.flaws = tuple(flaws)


_PLAN: TypeAdapter[Plan] = TypeAdapter(Plan)
_SECOND_FIELDS = {
    "when a result is poor": ("min_hits", "min_score", "min_documents"),
    "what is done differently then": ("score_threshold", "pool", "method", "expand", "rerank"),
}
_WHY_RERANKED = "hits of several namespaces are comparable only when they are read together"


def require_story_time(plan: Plan, story_time: int | None) -> None:
    """Raise PlanFlaw for a query without a story time under a plan that hides what happens later."""
    decay = plan.retrieve.time_decay
    is_required = plan.retrieve.requires_story_time or (decay is not None and decay.by == "story_time")
    if is_required and story_time is None:
        detail = (
            "is required: this profile shows nothing later than the story time, and without one it would show the whole"
            " story; to search all of it, send one later than its end"
        )
        raise PlanFlaw([("/story_time", detail)])


def read_plan(*layers: Mapping[str, Any]) -> Plan:
    """Merge layers of JSON, later ones over earlier ones, and return the checked plan. Raises PlanFlaw."""
    merged: Mapping[str, Any] = {}
    for layer in layers:
        merged = overlaid(merged, layer)
    if flaws := [*_twice_named(merged)]:
        raise PlanFlaw(flaws)
    document = orjson.dumps(merged)
    return (_known_plan if len(document) <= _SHORT else _checked_plan)(document)


def _checked_plan(document: bytes) -> Plan:
    try:
        plan = _PLAN.validate_json(document, strict=True)
    except ValidationError as error:
        raise PlanFlaw([(_pointer(flaw["loc"]), flaw["msg"]) for flaw in error.errors(include_url=False)]) from error
    if flaws := [*_retrieval_flaws(plan.retrieve), *_second_flaws(plan.retrieve.second), *_size_flaws(plan)]:
        raise PlanFlaw(flaws)
    return plan


def _retrieval_flaws(retrieve: RetrievePlan) -> Iterator[tuple[str, str]]:
    if retrieve.ladder is not None and any(low >= high for high, low in pairwise(retrieve.ladder.thresholds)):
        yield "/retrieve/ladder/thresholds", "must each be lower than the one before"
    decay, quality = retrieve.time_decay, retrieve.selection.quality
    if decay is not None and decay.by == "story_time" and decay.shape == "half_life":
        yield "/retrieve/time_decay/shape", "half_life counts days, which a story has none of; use hyperbolic"
    if quality is not None and len(set(quality.grades)) < max(1, len(quality.grades)):
        yield "/retrieve/selection/quality/grades", "names a grade twice"


def _size_flaws(plan: Plan) -> Iterator[tuple[str, str]]:
    how = plan.retrieve.selection
    if how.group_by is not None and plan.top_k * how.group_size > _MOST_GROUPED:
        yield "/group_size", f"makes {plan.top_k} groups of {how.group_size} hits, more than {_MOST_GROUPED} together"
    if how.group_by is not None and how.diversity:
        yield "/retrieve/selection/diversity", "chooses hits for each other, which groups do not"
    for position, name in enumerate(plan.facets):
        if name in plan.facets[:position]:
            yield f"/facets/{position}", "names a field twice"


def _second_flaws(second: SecondRetrievalPlan | None) -> Iterator[tuple[str, str]]:
    if second is None:
        return
    missing = [
        f"{purpose} ({', '.join(names)})"
        for purpose, names in _SECOND_FIELDS.items()
        if all(getattr(second, name) is None for name in names)
    ]
    if missing:
        yield "/retrieve/second", f"does not say {' nor '.join(missing)}"


_SHORT = 4096  # bytes; a longer plan is unlikely to repeat
_known_plan = functools.lru_cache(maxsize=256)(_checked_plan)


def comparable(plan: Plan, *, namespaces: int) -> tuple[Plan, tuple[str, ...]]:
    """Return the plan for a query in ``namespaces`` namespaces, and the refused settings in words: with more than one,
    reranking stays on, in a second retrieval too."""
    refused = []
    if namespaces > 1 and not plan.rerank.enabled:
        plan = replace(plan, rerank=replace(plan.rerank, enabled=True))
        refused.append(f"rerank stays on: {_WHY_RERANKED}")
    second = plan.retrieve.second
    if namespaces > 1 and second is not None and second.rerank is False:
        plan = replace(plan, retrieve=replace(plan.retrieve, second=replace(second, rerank=True)))
        refused.append(f"rerank stays on in a second retrieval: {_WHY_RERANKED}")
    return plan, tuple(refused)


def plan_as_json(plan: Plan) -> dict[str, Any]:
    """Return the whole plan in its JSON form."""
    document: dict[str, Any] = _PLAN.dump_python(plan, mode="json")
    return document


def overlaid(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return both layers of a plan merged key by key, with channels by their own names instead of aliases; any other value
    of ``over`` replaces that of ``under``. A layer that names a channel twice keeps the alias, which `read_plan` refuses."""
    return _merged(_with_channel_names(under), _with_channel_names(over))


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for name, value in over.items():
        below = merged.get(name)
        both = isinstance(value, Mapping) and isinstance(below, Mapping)
        merged[name] = _merged(below, value) if both else value  # type: ignore[arg-type]  # both are mappings
    return merged


def _with_channel_names(layer: Mapping[str, Any]) -> Mapping[str, Any]:
    retrieve = layer.get("retrieve")
    channels = retrieve.get("channels") if isinstance(retrieve, Mapping) else None
    if not isinstance(retrieve, Mapping) or not isinstance(channels, Mapping) or not CHANNEL_ALIASES.keys() & channels:
        return layer
    uses = Counter(_own_name(name) for name in channels)
    named = {own if uses[own := _own_name(name)] == 1 else name: channel for name, channel in channels.items()}
    return {**layer, "retrieve": {**retrieve, "channels": named}}


def _twice_named(merged: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    retrieve = merged.get("retrieve")
    channels = retrieve.get("channels") if isinstance(retrieve, Mapping) else None
    channels = channels if isinstance(channels, Mapping) else {}
    for name in channels:
        if (own := _own_name(name)) != name and own in channels:
            yield f"/retrieve/channels/{name}", f"names the channel {own} a second time"


def _own_name(name: str) -> str:
    try:
        return ChannelName(name).value
    except ValueError:
        return name


def _pointer(path: Sequence[str | int]) -> str:
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)
