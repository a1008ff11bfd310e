"""Queries on their way in, and their conversion to a `Query` in which every default is resolved."""

from __future__ import annotations

import time
import uuid
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from api_gateway.bodies import Decoded, refuse_flaws
from api_gateway.problems import Problem, invalid, places
from api_gateway.wire.fields import Author, Integer64, Label, Metadata, Moment, NamespaceName, Tags, TypeName, Wire
from pipeline.core.query import ContextOptions, Query
from pipeline.records import ChannelName, Filters, Namespace, QueryId, TenantId
from pipeline.settings import Settings

DEFAULT_PROFILE = "default"

Weight = Annotated[float, Field(ge=0, le=100)]


class FiltersIn(Wire):
    """What a hit's document must be like; everything that is given must hold. `tags`: all of them.

    `start` and `end` bound `published_at`, both inclusive.
    """

    type: TypeName | None = None
    tags: Tags | None = None
    author: Author | None = None
    start: Moment | None = None
    end: Moment | None = None
    metadata: Metadata | None = None


class ChannelIn(Wire):
    """One channel's say. A weight of 0 leaves the channel out."""

    weight: Weight | None = None


class ChannelsIn(Wire):
    """The channels whose weight differs from the installation's."""

    keyword: ChannelIn | None = None
    semantic: ChannelIn | None = None


class FusionIn(Wire):
    """How the channels' rankings become one. `k` belongs to rrf."""

    strategy: Literal["rrf", "weighted", "custom"] | None = None
    k: Annotated[int, Field(ge=0, le=10_000)] | None = None


class TimeDecayIn(Wire):
    """How fast documents lose weight with age. Accepted, and not applied yet."""

    half_life_days: Annotated[float, Field(gt=0, le=100_000)]


class RetrieveIn(Wire):
    """Where to look, and how to put together what is found there."""

    method: Literal["hybrid", "full_text", "semantic"] = "hybrid"
    score_threshold: Annotated[float, Field(ge=0, le=1)] = 0.0
    channels: ChannelsIn | None = None
    fusion: FusionIn | None = None
    time_decay: TimeDecayIn | None = None


class ContextIn(Wire):
    """How the passages are put together for a prompt. `window`: how many chunks before and after a hit are read with
    it; `parents`: whether the parent of a hit is read instead of it. Left out, documents are read as they were cut."""

    format: Literal["markdown", "text"] = "markdown"
    max_tokens: Annotated[int, Field(ge=1, le=32_000)] = 2000
    window: Annotated[int, Field(ge=0, le=10)] | None = None
    parents: bool | None = None


class QueryRequest(Wire):
    """One retrieval. Every field but `query_text` and `namespaces` is optional."""

    tenant_id: str | None = None
    query_text: Annotated[str, Field(min_length=1, max_length=8000)]
    namespaces: Annotated[list[NamespaceName], Field(min_length=1, max_length=32)]
    top_k: Annotated[int, Field(ge=1, le=1000)] | None = None
    filters: FiltersIn | None = None
    enable_expand: bool | None = None
    enable_rerank: bool | None = None
    profile: Label | None = None
    retrieve: RetrieveIn | None = None
    story_time: Integer64 | None = None
    context: ContextIn | None = None
    session_id: Label | None = None
    experiment_id: Label | None = None
    trace: bool | None = None


def to_query(decoded: Decoded, *, tenant_id: TenantId, request_id: str, use: Settings) -> Query:
    """The query a body asks for. Raises Problem 422, or 404 for a profile that does not exist."""
    try:
        sent = QueryRequest.model_validate(refuse_flaws(decoded))
    except ValidationError as error:
        raise invalid(places(error)) from None
    if sent.query_text.isspace():
        raise invalid([{"pointer": "/query_text", "detail": "holds nothing but white space"}])
    if sent.profile not in (None, DEFAULT_PROFILE):
        errors = [{"pointer": "/profile", "detail": "is not the name of a profile"}]
        raise Problem(404, "profile_not_found", f"There is no profile {sent.profile}.", errors=errors)
    retrieve = sent.retrieve or RetrieveIn()
    fusion = retrieve.fusion or FusionIn()
    strategy = _strategy(fusion, use)
    weights = _weights(retrieve, strategy, use)
    top_k = sent.top_k or use.retrieval_topk
    context = sent.context or ContextIn()
    created_at = time.time()
    return Query(
        query_id=QueryId(str(uuid.uuid4())),
        tenant_id=tenant_id,
        request_id=request_id,
        query_text=sent.query_text,
        namespaces=tuple(dict.fromkeys(Namespace(name) for name in sent.namespaces)),
        top_k=top_k,
        filters=_filters(sent),
        channels=tuple(weights),
        weights=weights,
        strategy=strategy,
        rrf_k=use.rrf_k if fusion.k is None else fusion.k,
        score_threshold=retrieve.score_threshold,
        pool=max(use.recall_pool, top_k),
        enable_expand=sent.enable_expand is not False,
        enable_rerank=sent.enable_rerank is not False,
        rerank_top_n=use.rerank_top_n,
        timeout_ms=use.recall_timeout_ms,
        retry=use.recall_retry,
        created_at=created_at,
        deadline_at=created_at + use.query_deadline_ms / 1000,
        session_id=sent.session_id,
        experiment_id=sent.experiment_id,
        trace=sent.trace is True,
        context=ContextOptions(
            format=context.format, max_tokens=context.max_tokens, window=context.window, parents=context.parents
        ),
    )


def _filters(sent: QueryRequest) -> Filters:
    asked = sent.filters or FiltersIn()
    if asked.start is not None and asked.end is not None and asked.end < asked.start:
        raise invalid([{"pointer": "/filters/end", "detail": "lies before start"}])
    return Filters(
        type=asked.type,
        tags=tuple(asked.tags or ()),
        author=asked.author,
        start=asked.start,
        end=asked.end,
        metadata=asked.metadata or {},
        story_time=sent.story_time,
    )


def _strategy(fusion: FusionIn, use: Settings) -> Literal["rrf", "weighted", "custom"]:
    if fusion.strategy == "custom" and use.recall_merge_strategy != "custom":
        raise invalid([{"pointer": "/retrieve/fusion/strategy", "detail": "is custom, which is not configured here"}])
    return fusion.strategy or use.recall_merge_strategy


def _weights(retrieve: RetrieveIn, strategy: str, use: Settings) -> dict[ChannelName, float]:
    """The channels to ask with their weights: what the request says, else 1 for rrf, else what the settings say."""
    asked: dict[str, Any] = retrieve.channels.model_dump(exclude_none=True) if retrieve.channels else {}
    weights: dict[ChannelName, float] = {}
    for channel in _channels(retrieve.method, use):
        usual = 1.0 if strategy == "rrf" else use.recall_source_weights.get(channel, 1.0)
        weights[channel] = asked.get(channel, {}).get("weight", usual)
    chosen = {channel: weight for channel, weight in weights.items() if weight > 0}
    if not chosen:
        raise invalid([{"pointer": "/retrieve/channels", "detail": "leaves no channel with a weight above 0"}])
    return chosen


def _channels(method: str, use: Settings) -> tuple[ChannelName, ...]:
    match method:
        case "full_text":
            return (ChannelName.KEYWORD,)
        case "semantic":
            return (ChannelName.SEMANTIC,)
    return tuple(ChannelName(name) for name in use.recall_sources)
