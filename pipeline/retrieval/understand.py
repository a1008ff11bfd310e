"""Understand a query: rules and cached results at once in the gateway, language models in parallel with the channels. A
task asks the model for missing results while the channels search the raw query. The composing process waits a little,
has the channels asked again in the other wordings, or continues without them: a model that fails or hangs costs its
time budget, and no hit of the raw query."""

import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import fields, replace
from functools import partial
from typing import Any, Final

import structlog
from pydantic import TypeAdapter, ValidationError

from pipeline.channels.channel import Channel
from pipeline.deadline import Deadline
from pipeline.models.prompt_texts import load_prompt
from pipeline.query.request import Degradation, Query, Step
from pipeline.query.understanding import (
    ModelResults,
    QueryState,
    Understood,
    has_sub_queries,
    understanding_deadline,
    understood_by_model,
    understood_by_rules,
)
from pipeline.query.understanding_store import Understandings, digest_of
from pipeline.records import ChannelName, QueryId, TenantId
from pipeline.resources import Resources
from pipeline.retrieval.arrived import Arrived
from pipeline.retrieval.ask_channels import ask_other_wordings, losses_of, settled
from pipeline.retrieval.measure import charge_model
from pipeline.tenants.usage import Purpose
from pipeline.threads import start_call

log = structlog.get_logger(__name__)

_MADE: TypeAdapter[ModelResults] = TypeAdapter(ModelResults)
_PROMPTS: Final[Mapping[Step, str]] = {
    "expand": "rag_expand",
    "rewrite": "rag_rewrite",
    "route": "rag_route",
    "hyde": "rag_hyde",
}
_HAND_OVER_S: Final = 0.05  # so that model results in time are also stored in time
_RESERVE_S: Final = 0.25  # for composing the answer


def understand_at_once(query: Query, use: Resources) -> Query:
    """Return the query as rules and cached model results understand it; ``model_steps`` are left for a model. Costs one
    read from Redis, and only where a language model is configured. Never raises."""
    query = understood_by_rules(query, model=bool(use.settings.llm_model))
    if not query.model_steps:
        return query
    query = _with_cached_results(query, use)
    return query if query.channels else replace(query, model_steps=())


def _with_cached_results(query: Query, use: Resources) -> Query:
    """Return the query with the cached results of its model steps, which are then no longer among these."""
    digests = _digests(query, use)
    cached = _cache(use, query.tenant_id).get(list(digests.values()))
    for step, digest in digests.items():
        made = _read(cached.get(digest))
        if made is not None:
            query = understood_by_model(query, made)
            query = replace(query, model_steps=tuple(other for other in query.model_steps if other != step))
    return query


def understand(tenant_id: TenantId, query_id: QueryId, use: Resources) -> Understood | None:
    """Ask the model for a query's steps and notify the composing process; None without steps. Raises Unavailable."""
    queries = use.queries(tenant_id)
    query = queries.load(query_id)
    if query is None or not query.model_steps:
        return None
    return ask_model(query, use, partial(queries.report_understood, query_id))


def ask_model(query: Query, use: Resources, report: Callable[..., object] | None = None) -> Understood:
    """Ask the model for a query's steps, ``report`` the results, and cache each. Raises Unavailable."""
    started = time.perf_counter()
    results, lost = _ask(query, use, understanding_deadline(query).before(_HAND_OVER_S))
    every = ((field.name, getattr(result, field.name)) for result in results.values() for field in fields(result))
    made = ModelResults(**{name: value for name, value in every if value is not None})  # each step sets its own field
    understood = Understood(made=made, lost=tuple(lost))
    elapsed_ms = (time.perf_counter() - started) * 1000
    if report is not None:
        report(understood, elapsed_ms=elapsed_ms)
    digests = _digests(query, use)
    _cache(use, query.tenant_id).put({digests[step]: _MADE.dump_json(result) for step, result in results.items()})
    log.info(
        "query_understood",
        query_id=query.query_id,
        request_id=query.request_id,
        steps=list(query.model_steps),
        lost=[f"{loss.part}:{loss.code}" for loss in lost],
        sub_queries=len(made.sub_queries or ()),
        latency_ms=round(elapsed_ms, 2),
    )
    return understood


def understood_in_time(query: Query, asking: Future[Understood]) -> Understood:
    """Return the results of `ask_model` in a thread as far as the query may wait for them; else its steps as lost."""
    result = settled(asking, understanding_deadline(query), bug="understanding_bug", query_id=query.query_id)
    if isinstance(result, Understood):
        return result
    return Understood(made=ModelResults(), lost=tuple(_not_in_time(query)))


def _not_in_time(query: Query) -> list[Degradation]:
    return [_lost(step, "timeout", "was not made in time") for step in query.model_steps]


def await_understanding(state: QueryState, use: Resources, channels: Mapping[ChannelName, Channel]) -> Arrived:
    """Wait for the model as long as the query allows, have the channels that answered asked in the other wordings, and
    return the state to compose from. After the deadline, or without ``channels``, only add the losses."""
    query, losses = state.query, []
    arrived = Arrived.of(state)
    envelopes, elapsed_ms = arrived.envelopes, dict(arrived.elapsed_ms)
    if query.model_steps:
        understood = state.understood
        if understood is None:
            understood = use.queries(query.tenant_id).await_understood(query.query_id, understanding_deadline(query))
        if understood is None:
            losses = _not_in_time(query)
        else:
            query = understood_by_model(query, understood.made)
            losses = list(understood.lost)
        succeeded = {name: envelope for name, envelope in envelopes.items() if name in query.plan.channels}
        started = time.perf_counter()
        envelopes = ask_other_wordings(query, succeeded, channels, reserve_s=_RESERVE_S)
        elapsed_ms["wordings"] = round((time.perf_counter() - started) * 1000, 3)
    losses += losses_of(query, envelopes)
    return replace(arrived, query=query, envelopes=envelopes, elapsed_ms=elapsed_ms, losses=tuple(losses))


def expand_query(query: Query, use: Resources) -> tuple[Query, list[Degradation]]:
    """Return the query with its sub-queries, from the cache or from the model within its budget, and the losses. All
    else stays as it was understood before, above all its route. A literal query has no sub-queries."""
    if not has_sub_queries(query):
        return query, []
    query = _with_cached_results(replace(query, model_steps=("expand",)), use)
    results, lost = _ask(query, use, understanding_deadline(query).before(_HAND_OVER_S))
    for made in results.values():
        query = understood_by_model(query, made)
    if lost:
        log.warning("query_not_expanded", query_id=query.query_id, lost=[f"{loss.part}:{loss.code}" for loss in lost])
    return replace(query, model_steps=()), lost


def _ask(query: Query, use: Resources, deadline: Deadline) -> tuple[dict[Step, ModelResults], list[Degradation]]:
    """Return the result of each step that succeeded by ``deadline``, and the losses of the others."""
    running: dict[Step, Future[ModelResults]] = {}
    results: dict[Step, ModelResults] = {}
    lost: list[Degradation] = []
    for step in query.model_steps:
        if deadline.has_passed:
            lost.append(_lost(step, "timeout", "was not begun in time"))
        else:
            running[step] = start_call(_ask_model, step, query, use, deadline.left_s())
    for step, future in running.items():
        limit = deadline.before(-_HAND_OVER_S / 2)
        result = settled(future, limit, bug="understanding_bug", step=step, query_id=query.query_id)
        if isinstance(result, ModelResults):
            results[step] = result
        elif result.bug:
            lost.append(_lost(step, result.code, f"failed with an unexpected {result.bug}"))
        else:
            lost.append(_lost(step, result.code, f"failed: {result.error}" if result.error else "did not end in time"))
    return results, lost


def _ask_model(step: Step, query: Query, use: Resources, timeout_s: float) -> ModelResults:
    rewriter, text = use.rewriter, query.query_text
    counted = partial(charge_model, query.tenant_id, Purpose.UNDERSTAND, use)
    match step:
        case "expand":
            sub_queries = rewriter.expand(text, most=query.plan.understand.expand, timeout_s=timeout_s, counted=counted)
            return ModelResults(sub_queries=sub_queries)
        case "rewrite":
            rewritten = rewriter.rewrite(text, background=query.background, timeout_s=timeout_s, counted=counted)
            return ModelResults(rewritten=rewritten)
        case "route":
            return ModelResults(routed=rewriter.route(text, timeout_s=timeout_s, counted=counted))
        case "hyde":
            return ModelResults(hypothetical=rewriter.imagine(text, timeout_s=timeout_s, counted=counted))


def _lost(step: Step, code: str, what: str) -> Degradation:
    return Degradation(part=step, code=code, detail=f"{step} {what}; the query was asked without it")


def _cache(use: Resources, tenant_id: TenantId) -> Understandings:
    return Understandings(use.quick_redis, tenant_id, memory=use.redis_memory)


def _digests(query: Query, use: Resources) -> dict[Step, str]:
    """Return a digest of all inputs of each step: model, prompt, text, background, and the number of sub-queries."""
    background = query.background and (query.background.conversation, json.dumps(query.background.profile))
    options: dict[Step, Any] = {"expand": query.plan.understand.expand, "rewrite": background or ""}
    return {
        step: digest_of(
            step,
            use.settings.llm_model,
            load_prompt(_PROMPTS[step]).version,
            options.get(step, ""),
            query.query_text.strip(),
        )
        for step in query.model_steps
    }


def _read(cached: bytes | None) -> ModelResults | None:
    try:
        return None if cached is None else _MADE.validate_json(cached)
    except ValidationError:  # written by another version of this program
        return None
