"""Understand a query by rules at once and by a model meanwhile, and derive the wordings for each channel."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple

from pipeline.deadline import Deadline
from pipeline.keyword.terms import query_terms
from pipeline.query.keywords import conversation_words, entities_of, keywords_of, profile_words
from pipeline.query.model_replies import Rewritten, Routed
from pipeline.query.plan import Method, Plan, RetrievePlan
from pipeline.query.request import Degradation, Envelope, Query, Step, Understanding
from pipeline.query.routing import Route, route
from pipeline.records import ChannelName
from pipeline.telemetry.tracing import OutsideCall

# A sub-query asks something near the question: hits of it alone count for less.
_SUB_QUERY_WEIGHT: Final = 0.8
# Preferences of a user are further from the question than the messages just before it.
_PROFILE_WEIGHT: Final = 0.5
# The most of a query's time for understanding, so that its wordings can still be searched.
_LONGEST_PART: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResults:
    """The results of a model for a query; None for a step that was not requested or failed."""

    sub_queries: tuple[str, ...] | None = None
    rewritten: Rewritten | None = None
    routed: Routed | None = None
    hypothetical: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Understood:
    """The results of the model, and the steps that failed."""

    made: ModelResults
    lost: tuple[Degradation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """Another text to search, by ``weight``. ``is_passage``: like an answer, so its scores are higher throughout."""

    text: str
    step: Step
    weight: float = 1.0
    is_passage: bool = False


def understood_by_rules(query: Query, *, model: bool) -> Query:
    """Return the query with its keywords and names, routed by rules, and with the planned steps for a ``model``."""
    plan = query.plan.understand
    if not plan.enabled:
        return query
    understanding = Understanding(
        route=query.plan.retrieve.method,
        keywords=tuple(keywords_of(query.query_text)) if plan.keywords or plan.rewrite else (),
        entities=tuple(entities_of(query.query_text)) if plan.entities else (),
    )
    query = replace(query, understanding=understanding)
    ruled = route(query.query_text) if plan.router != "off" else None
    if query.background is not None and not _is_literal(ruled):
        spoken, profile = conversation_words(query.background), profile_words(query.background)
        query = replace(query, understanding=replace(understanding, conversation_words=spoken, profile_words=profile))
    if ruled is not None and ruled.is_sure:
        query = _routed(query, ruled.method, rerank=ruled.rerank, reason=ruled.reason)
    return replace(query, model_steps=_steps(query, ruled) if model else ())


def _steps(query: Query, ruled: Route | None) -> tuple[Step, ...]:
    """Return the model's steps; a literal query has no other wordings, and only a semantic search needs a passage."""
    plan, channels = query.plan.understand, query.plan.channels
    literal = _is_literal(ruled)
    wanted: dict[Step, bool] = {
        "expand": plan.expand > 0 and not literal,
        "rewrite": (_rewrites(query) or plan.keywords or plan.entities) and not literal,
        "route": plan.router == "llm" and ruled is not None and not ruled.is_sure,
        "hyde": plan.hyde and ChannelName.SEMANTIC in channels,
    }
    return tuple(step for step, is_wanted in wanted.items() if is_wanted) if channels else ()


def has_sub_queries(query: Query) -> bool:
    """Return whether a model can write sub-queries for the query as it is planned: not for a literal one."""
    ruled = route(query.query_text) if query.plan.understand.router != "off" else None
    return "expand" in _steps(query, ruled)


def _is_literal(ruled: Route | None) -> bool:
    return ruled is not None and ruled.is_sure and ruled.method == "full_text"


def _rewrites(query: Query) -> bool:
    """Return whether to search a model's rewrite of the query: its plan enables it, or it has a background."""
    return query.plan.understand.rewrite or query.background is not None


def understood_by_model(query: Query, made: ModelResults) -> Query:
    """Return the query with the results of a model that its plan enables."""
    plan, understanding = query.plan.understand, query.understanding or Understanding(route=query.plan.retrieve.method)
    if made.routed is not None:
        query = _routed(query, made.routed.method, rerank=made.routed.rerank, reason="the model's choice")
        understanding = query.understanding or understanding
    if made.sub_queries is not None:
        understanding = replace(understanding, sub_queries=made.sub_queries)
    if made.hypothetical is not None:
        understanding = replace(understanding, hypothetical=made.hypothetical)
    if (better := made.rewritten) is not None:
        understanding = replace(
            understanding,
            rewritten=better.expanded_query if _rewrites(query) else None,
            keywords=better.keywords or understanding.keywords if plan.keywords or plan.rewrite else (),
            entities=better.entity_mentions or understanding.entities if plan.entities else (),
        )
        if understanding.rewritten:
            understanding = replace(understanding, conversation_words=(), profile_words=())
    return replace(query, understanding=understanding)


def understanding_deadline(query: Query) -> Deadline:
    """Return the deadline until which a model's understanding of the query is awaited."""
    allowed = min(query.plan.understand.budget_ms / 1000, (query.deadline_at - query.created_at) * _LONGEST_PART)
    return Deadline(query.created_at + allowed)


def wordings_of(query: Query, channel: ChannelName) -> tuple[Wording, ...]:
    """Return the texts that a channel searches besides the query's own; none for the faq and api channels."""
    understanding, plan = query.understanding, query.plan.understand
    if understanding is None or channel not in (ChannelName.KEYWORD, ChannelName.SEMANTIC):
        return ()
    by_words = channel is ChannelName.KEYWORD
    wordings = [Wording(text=understanding.rewritten, step="rewrite")] if understanding.rewritten else []
    if by_words and plan.keywords and understanding.keywords:
        wordings.append(Wording(text=f"{query.query_text} {' '.join(understanding.keywords)}", step="rewrite"))
    background = ((understanding.conversation_words, _SUB_QUERY_WEIGHT), (understanding.profile_words, _PROFILE_WEIGHT))
    for words, weight in background:
        if words:
            wordings.append(Wording(text=f"{query.query_text} {' '.join(words)}", step="rewrite", weight=weight))
    wordings.extend(Wording(text=text, step="expand", weight=_SUB_QUERY_WEIGHT) for text in understanding.sub_queries)
    if not by_words and understanding.hypothetical:
        wordings.append(Wording(text=understanding.hypothetical, step="hyde", is_passage=True))
    return _different(query.query_text, wordings, by_words=by_words)


def pool_share(pool: int, wordings: int) -> int:
    """Return how many chunks each further wording recalls: together as many as the query's own text."""
    return max(1, -(-pool // max(1, wordings)))


def merged(raw: Envelope, others: Sequence[tuple[Wording, Envelope]], *, pool: int) -> Envelope:
    """Return one ranking of several: each chunk with its best score, on the scale of the query's own words, best first.

    A wording's score counts ``score * weight * min(1, raw bound / its bound)``: a wording of more words cannot say more
    than the query does, and one of fewer says no more than its words are worth. Scores of a passage are brought to the
    best one of the query's own words instead. Negative scores stay as they are, or a weight would raise them. At most
    ``pool`` chunks; equal scores are ordered by id, and no hit of the query's own words loses any of its score.
    """
    best = dict(zip(raw.chunk_ids, raw.scores, strict=True))
    supplied = {passage.chunk_id: passage for passage in raw.supplied}
    for wording, ranking in others:
        factor = wording.weight * _scale(raw, ranking, wording)
        for chunk_id, score in zip(ranking.chunk_ids, ranking.scores, strict=True):
            counted = score * factor if score > 0 else score
            if chunk_id not in best or counted > best[chunk_id]:
                best[chunk_id] = counted
        supplied |= {passage.chunk_id: passage for passage in ranking.supplied if passage.chunk_id not in supplied}
    ordered = sorted(best.items(), key=lambda pair: (-pair[1], pair[0]))[:pool]
    bounds = [ranking.upper_bound for _, ranking in others if ranking.upper_bound]
    return replace(
        raw,
        chunk_ids=tuple(chunk_id for chunk_id, _ in ordered),
        scores=tuple(score for _, score in ordered),
        upper_bound=raw.upper_bound or (max(bounds) if bounds else raw.upper_bound),
        supplied=tuple(supplied[chunk_id] for chunk_id, _ in ordered if chunk_id in supplied),
        unasked=None,
    )


def _scale(raw: Envelope, ranking: Envelope, wording: Wording) -> float:
    if wording.is_passage and raw.scores and ranking.scores and ranking.scores[0] > raw.scores[0] > 0:
        return raw.scores[0] / ranking.scores[0]
    if raw.upper_bound and ranking.upper_bound:
        return min(1.0, raw.upper_bound / ranking.upper_bound)
    return 1.0


def _different(text: str, wordings: Sequence[Wording], *, by_words: bool) -> tuple[Wording, ...]:
    """Return the wordings that differ; for the keyword channel, those with other terms."""

    def meaning(wording: str) -> object:
        return frozenset(query_terms(wording)) if by_words else wording.strip()

    seen = {meaning(text)}
    different = []
    for wording in wordings:
        words = meaning(wording.text)
        if words and words not in seen:
            seen.add(words)
            different.append(wording)
    return tuple(different)


def _routed(query: Query, method: Method | None, *, rerank: bool, reason: str) -> Query:
    """Return the query restricted to a route, unless that is impossible. Several namespaces are always reranked."""
    plan = query.plan
    understanding = query.understanding or Understanding(route=plan.retrieve.method)
    if method is None:
        retrieve: RetrievePlan | None = replace(plan.retrieve, channels={})
        remark = f"nothing was searched: {reason}"
    else:
        if not rerank and len(query.namespaces) == 1:
            plan = replace(plan, rerank=replace(plan.rerank, enabled=False))
        retrieve, remark = _narrowed(plan, method), f"searched by {method} alone: {reason}"
    if retrieve is None:
        return query if plan is query.plan else replace(query, plan=plan, before_routing=query.original)
    return replace(
        query,
        plan=replace(plan, retrieve=retrieve),
        before_routing=query.original,
        understanding=replace(understanding, route=method),
        remarks=(*query.remarks, remark),
    )


def _narrowed(plan: Plan, method: Method) -> RetrievePlan | None:
    """Return the plan without the channel that a route excludes; None if nothing is excluded, or nothing would be left."""
    excluded = {"full_text": ChannelName.SEMANTIC, "semantic": ChannelName.KEYWORD}.get(method)
    if excluded is None or not {ChannelName.SEMANTIC, ChannelName.KEYWORD} <= plan.channels.keys():
        return None
    channels = {name: channel for name, channel in plan.retrieve.channels.items() if ChannelName(name) is not excluded}
    return replace(plan.retrieve, channels=channels)


class ChannelRun(NamedTuple):
    """When a channel was asked (seconds since the epoch), by which worker, and its calls to stores and models."""

    started_at: float
    worker: str
    calls: Sequence[OutsideCall] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelStep:
    """The outcome of a channel, which outlives its hits. ``hits``: the number of chunks that it proposed."""

    channel: ChannelName
    status: Literal["ok", "failed", "timeout"]
    hits: int
    code: str | None = None

    @classmethod
    def of(cls, envelope: Envelope) -> "ChannelStep":
        """Return the outcome in an envelope."""
        hits, code = len(envelope.chunk_ids), envelope.code
        return cls(channel=envelope.channel, status=envelope.status, hits=hits, code=code)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryState:
    """The state of a query. ``envelopes``: of the channels that returned, until it is answered; ``steps``: their outcomes,
    by name. ``elapsed_ms``: by channel, of those that returned, and of ``understand``; ``answer``:
    JSON, once written. ``understood``: the result of the model, None while it is not there. ``ran``: when each channel
    was asked, by which worker. ``opened_at``: when the gateway stored it, seconds since the epoch."""

    query: Query
    status: str
    envelopes: tuple[Envelope, ...]
    elapsed_ms: dict[str, float]
    answer: bytes | None
    steps: tuple[ChannelStep, ...] = ()
    understood: Understood | None = None
    ran: Mapping[str, ChannelRun] = field(default_factory=dict)
    opened_at: float | None = None

    @property
    def overdue_s(self) -> float:
        """Seconds since the deadline of an unanswered query; 0 before the deadline and for an answered query."""
        return 0.0 if self.answer is not None else self.query.deadline.overdue_s()
