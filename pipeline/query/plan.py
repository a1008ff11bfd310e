"""How one query is to be answered: every setting of retrieval, resolved. A profile is the JSON form of a plan, whole or in
part; a request overrides parts of it. What is put together from such layers is checked once, by `read_plan`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import orjson
from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError

from pipeline.channel_time import ChannelTime
from pipeline.privacy.redaction import MaskedKind
from pipeline.query.plan_rules import contradictions
from pipeline.records import ChannelName

_STRICT = ConfigDict(extra="forbid")

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


ChannelKey = Annotated[str, AfterValidator(_installed)]
Method = Literal["hybrid", "full_text", "semantic"]
Lane = Literal["chord", "in_process"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelPlan:
    """One channel's part. A weight of 0 leaves it out. None: what the installation's settings say.

    ``pool``: how many chunks it recalls. ``min_score``: what scores below it, by the channel's own measure, is not
    recalled. ``options`` are those of the channel alone.
    """

    __pydantic_config__ = _STRICT

    weight: Weight = 1.0
    timeout_ms: ChannelTime | None = None
    retry: Annotated[int, Field(ge=0, le=3)] | None = None
    pool: Annotated[int, Field(ge=1, le=2000)] | None = None
    min_score: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionPlan:
    """How the channels' rankings become one. ``k`` belongs to rrf, ``normalisation`` to weighted, ``plugin`` names the
    entry point of custom. ``gate``: a channel whose best hit reaches less than this share of what it could, or that
    scores all its hits alike, has no say.
    ``reading_gate``: a channel whose model cannot read the whole query counts by the part it reads, and how much of the
    query's words a candidate holds counts the rest; without it weights are taken as they are. ``query_weights``: the
    semantic channel counts more where its first hit stands out, less where it does not
    (`ranking.channel_gate`). ``feedback``: whether the candidates' scores follow those of their neighbours."""

    __pydantic_config__ = _STRICT

    strategy: Literal["rrf", "weighted", "custom"] = "weighted"
    k: Annotated[int, Field(ge=0, le=10_000)] = 60
    normalisation: Literal["min_max", "z_score"] = "min_max"
    plugin: Name | None = None
    gate: Share | None = None
    reading_gate: bool = False
    query_weights: bool = False
    feedback: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DecayPlan:
    """How hits lose score with age, measured on ``by``. ``half_life``: halved every ``half_life_days``; ``hyperbolic``:
    ``1 / (1 + age / scale)``, age in the unit of ``by`` (seconds, or the story's own); ``window``: full score up to
    ``scale``, ``floor`` beyond. Nothing falls below ``floor``; what has no date keeps its score."""

    __pydantic_config__ = _STRICT

    shape: Literal["half_life", "hyperbolic", "window"] = "half_life"
    half_life_days: Annotated[float, Field(gt=0, le=100_000)] = 30.0
    scale: Annotated[float, Field(gt=0)] = 1_000_000.0
    by: Literal["published_at", "updated_at", "story_time"] = "published_at"
    floor: Share = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityPlan:
    """Which grade a hit's metadata says it has, and what that changes. Grades go from best to worst; the worst is left
    out when more than ``enough`` hits are there; what is not graded counts as the worst. Scores closer than this share
    of the best one, ``near_tie``, are ordered by grade, then the newer first."""

    __pydantic_config__ = _STRICT

    key: Name = "quality_grade"
    grades: tuple[Name, ...] = ("优秀", "良好", "一般")
    enough: Annotated[int, Field(ge=0, le=1000)] = 15
    near_tie: Share = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionPlan:
    """Which of the ordered hits are returned. ``per_document``: at most so many of one document. ``diversity``: 0 takes
    them as they come, 1 looks only for what was not said yet (maximal marginal relevance, lambda = 1 - diversity)."""

    __pydantic_config__ = _STRICT

    dedupe: Literal["chunk", "document", "content"] = "chunk"
    per_document: Annotated[int, Field(ge=1, le=1000)] | None = None
    diversity: Share = 0.0
    quality: QualityPlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderPlan:
    """Thresholds on similarity, tried in order until ``min_results`` hits reach one; at the end of it, those that reach
    the last, however few. Nothing is recalled again."""

    __pydantic_config__ = _STRICT

    thresholds: Annotated[tuple[Share, ...], Field(min_length=1, max_length=10)] = (0.7, 0.6, 0.5)
    min_results: Annotated[int, Field(ge=1, le=1000)] = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondRetrievalPlan:
    """When a result is poor, and what is done differently the second time. At least one condition and one change.

    Poor: fewer than ``min_hits`` chunks are returned, of fewer than ``min_documents`` documents, or none of them with a
    confidence of ``min_score``. The other fields take the place of those of the plan."""

    __pydantic_config__ = _STRICT

    min_hits: Annotated[int, Field(ge=1)] | None = None
    min_score: Share | None = None
    min_documents: Annotated[int, Field(ge=1)] | None = None
    score_threshold: Share | None = None
    pool: Annotated[int, Field(ge=1, le=2000)] | None = None
    method: Method | None = None
    expand: bool | None = None
    rerank: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievePlan:
    """Where to look, and how to put together what is found there. ``allocation``: how many chunks each channel recalls
    for each text it is asked. ``pool``: as many as the channel's pool, never fewer than ``top_k``; ``balanced``:
    ``top_k``, and every channel has an equal share of the places returned (`ranking.selection`); ``double``:
    ``2 * top_k``. ``score_threshold`` is compared with a hit's confidence. ``requires_story_time``: refuse a query
    without ``story_time``, which would show the whole story; decay by ``story_time`` requires it as well.
    ``optional_namespaces``: those that may be missing; a query that names one is degraded then and asks the others."""

    __pydantic_config__ = _STRICT

    method: Method = "hybrid"
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
class RerankPlan:
    """``provider``: ``auto`` is the rerank service where one is configured, else the language model, else local.
    ``threshold``: what does not reach it is left out, by score or for want of one, the best of it not if fewer than
    ``min_results`` would stay. ``weight``: how far it overrules the fused order; None is the reranker's own."""

    __pydantic_config__ = _STRICT

    enabled: bool = True
    provider: Literal["auto", "local", "llm", "http"] = "auto"
    top_n: Annotated[int, Field(ge=1, le=200)] = 20
    threshold: Share | None = None
    min_results: Annotated[int, Field(ge=0, le=1000)] = 1
    weight: Share | None = None
    budget_ms: Milliseconds = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderstandPlan:
    """What is made of a query before it is asked. Everything but ``rules`` needs a language model; without one, or when
    it is late, the raw query and its own keywords are used. ``expand``: how many sub-queries, at most."""

    __pydantic_config__ = _STRICT

    enabled: bool = True
    router: Literal["off", "rules", "llm"] = "off"
    rewrite: bool = False
    keywords: bool = False
    entities: bool = False
    expand: Annotated[int, Field(ge=0, le=8)] = 4
    hyde: bool = False
    budget_ms: Milliseconds = 1200


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackPlan:
    """What is given when nothing, or nothing surer than ``threshold``, was found: the best answers of the curated
    question-answer pairs, and a hint for people. Both are marked ``fallback``."""

    __pydantic_config__ = _STRICT

    enabled: bool = True
    threshold: Share = 0.4
    faq: bool = False
    namespaces: tuple[Name, ...] = ()
    hint: Annotated[str, Field(max_length=2000)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOptions:
    """How the passages are put together for a prompt. ``max_tokens`` bounds the whole text. ``window`` and ``parents``:
    what is read with a hit; None leaves it to the way its document was cut; ``whole_document``: all of its document,
    where that takes no more than half of the budget. ``header``: what stands above a passage; ``story`` is its chapter
    and story time. ``passages``: ``dialogue`` shows question-answer pairs as what user and assistant said.
    ``entities``: whether the states of the entities that the hits name come with it."""

    __pydantic_config__ = _STRICT

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
class PrivacyPlan:
    """Which personal data is masked in answers; what leaves for a model is always masked."""

    __pydantic_config__ = _STRICT

    mask_answers: bool = False
    kinds: tuple[MaskedKind, ...] = tuple(MaskedKind)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Every setting of one retrieval. The fields are those of a profile. ``lane``: who answers a caller that waits: the
    workers, through the broker, or the gateway's own processes. The answer is the same."""

    __pydantic_config__ = _STRICT

    top_k: Annotated[int, Field(ge=1, le=1000)] = 10
    deadline_ms: Annotated[int, Field(ge=200, le=60_000)] = 3000
    retrieve: RetrievePlan = field(default_factory=RetrievePlan)
    rerank: RerankPlan = field(default_factory=RerankPlan)
    understand: UnderstandPlan = field(default_factory=UnderstandPlan)
    fallback: FallbackPlan = field(default_factory=FallbackPlan)
    context: ContextOptions = field(default_factory=ContextOptions)
    privacy: PrivacyPlan = field(default_factory=PrivacyPlan)
    lane: Lane = "chord"

    @functools.cached_property
    def channels(self) -> Mapping[ChannelName, ChannelPlan]:
        """The channels that are asked: those of the method, with a weight above 0, in the order of the plan."""
        only = {"full_text": ChannelName.KEYWORD, "semantic": ChannelName.SEMANTIC}.get(self.retrieve.method)
        named = {ChannelName(name): channel for name, channel in self.retrieve.channels.items()}
        return {name: channel for name, channel in named.items() if channel.weight > 0 and only in (None, name)}


class PlanFlaw(ValueError):  # not an error by itself: who reads a plan decides what it means
    """A plan that cannot be. ``flaws``: JSON pointers into it, and what is wrong there."""

    def __init__(self, flaws: Sequence[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{pointer} {detail}" for pointer, detail in flaws))
        self.flaws = tuple(flaws)


_PLAN: TypeAdapter[Plan] = TypeAdapter(Plan)


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
    """The plan that these layers of JSON make, later ones over earlier ones. Raises PlanFlaw."""
    merged: Mapping[str, Any] = {}
    for layer in layers:
        merged = overlaid(merged, layer)
    document = orjson.dumps(merged)
    return (_known_plan if len(document) <= _SHORT else _checked_plan)(document)


def _checked_plan(document: bytes) -> Plan:
    try:
        plan = _PLAN.validate_json(document, strict=True)
    except ValidationError as error:
        raise PlanFlaw([(_pointer(flaw["loc"]), flaw["msg"]) for flaw in error.errors(include_url=False)]) from error
    if flaws := contradictions(plan):
        raise PlanFlaw(flaws)
    return plan


_SHORT = 4096  # bytes; who overrides more than a plan usually says will hardly say the same again
_known_plan = functools.lru_cache(maxsize=256)(_checked_plan)


def plan_as_json(plan: Plan) -> dict[str, Any]:
    """The whole plan in its JSON form."""
    document: dict[str, Any] = _PLAN.dump_python(plan, mode="json")
    return document


def overlaid(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Both, objects merged key by key; any other value of ``over`` takes the place of what was there."""
    merged = dict(under)
    for name, value in over.items():
        below = merged.get(name)
        both = isinstance(value, Mapping) and isinstance(below, Mapping)
        merged[name] = overlaid(below, value) if both else value  # type: ignore[arg-type]  # both are mappings
    return merged


def _pointer(path: Sequence[str | int]) -> str:
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)
