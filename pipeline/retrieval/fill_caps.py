"""Fill an answer that duplicates and caps on documents left short: ask the channels again for candidates within the caps."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pipeline.channels.channel import Channel
from pipeline.query.plan import SelectionPlan
from pipeline.query.request import Envelope, Query, caps_of
from pipeline.ranking.fusion import lessened
from pipeline.ranking.hits import Hit
from pipeline.ranking.selection import deduplicated, select
from pipeline.records import ChannelName
from pipeline.retrieval.arrived import Arrived
from pipeline.retrieval.ask_channels import RESERVE_S
from pipeline.retrieval.fuse import least_pool
from pipeline.retrieval.retry_poor import LEAST_S, RetrievalRound, with_answers

# The channels that apply `Query.caps`, and that find further chunks under other filters.
CAPPING: Final[tuple[ChannelName, ...]] = (ChannelName.KEYWORD, ChannelName.SEMANTIC)
_CODE: Final = "caps_not_filled"
_NOT_FILLED: Final = "{code}: {hits} of {top_k} hits, because {caps} left out {capped} others; {why}"
_NO_OTHERS: Final = "nothing else matches"
_MAY_BE_MORE: Final = "there may be others further down{where}"


def fill_caps(
    first: RetrievalRound, run: Callable[[Arrived], RetrievalRound], channels: Mapping[ChannelName, Channel]
) -> RetrievalRound:
    """Return the round, with more hits where duplicates and caps left fewer than ``top_k`` and a channel may have others.

    The channels are asked again within the caps, and ``run`` ranks their candidates behind the hits of the round. Hits that
    only a greater ``top_k`` recalled keep that order, so that an answer begins with every shorter one. A remark explains an
    answer that stays short. Costs nothing where the least pool fills the answer."""
    arrived, caps = first.arrived, caps_of(first.arrived.query.plan.retrieve.selection)
    query, journal = arrived.query, arrived.journal
    journal.remarks[:] = [remark for remark in journal.remarks if not remark.startswith(_CODE)]  # of an earlier round
    if caps is None:
        return first
    pools = {name: least_pool(query, name) or query.pool_of(name) for name in arrived.usable}
    begun = {name: _begun(envelope, pools[name]) for name, envelope in arrived.usable.items()}
    early = {chunk_id for envelope in begun.values() for chunk_id in envelope.chunk_ids}
    kept = [hit for hit in first.returned if hit.chunk_id in early]
    if len(kept) == len(first.returned) and (not first.capped or len(kept) >= query.top_k):
        return first
    started, best, where = time.perf_counter(), first, ""
    full = [name for name, envelope in begun.items() if len(envelope.chunk_ids) >= pools[name]]
    asked = {name: channels[name] for name in full if name in CAPPING and name in channels}
    if query.deadline.left_s() < RESERVE_S + LEAST_S:
        where = ", for which no time was left"
    elif asked:
        left_out, ladder = list(journal.drops), journal.ladder
        journal.begin_again()
        trimmed = replace(arrived, envelopes={**arrived.envelopes, **{name: begun[name] for name in asked}})
        widened, answered = with_answers(trimmed, replace(query, caps=caps), asked, part="fill")
        for name, envelope in answered.items():
            pools[name] = len({*begun[name].chunk_ids, *envelope.chunk_ids[: pools[name]]})
        filled = run(replace(widened, query=with_pools(query, pools)))
        filled = _continued(kept, replace(filled, arrived=replace(widened, query=query)))
        if len(filled.returned) >= len(first.returned):
            best = filled
            journal.asked_again = filled.arrived.envelopes
        else:
            journal.ladder, journal.drops[:] = ladder, left_out
        full = [name for name in full if name not in answered or _may_have_more(answered[name], query)]
        journal.took("fill", started)
    if len(best.returned) < query.top_k:
        journal.remarks.append(
            _NOT_FILLED.format(
                code=_CODE,
                hits=len(best.returned),
                top_k=query.top_k,
                caps=_caps(query.plan.retrieve.selection),
                capped=best.capped,
                why=_MAY_BE_MORE.format(where=where) if full else _NO_OTHERS,
            )
        )
    return best


def _begun(envelope: Envelope, count: int) -> Envelope:
    """Return a channel's result with its first hits only."""
    if len(envelope.chunk_ids) <= count:
        return envelope
    return replace(envelope, chunk_ids=envelope.chunk_ids[:count], scores=envelope.scores[:count])


def with_pools(query: Query, pools: Mapping[ChannelName, int]) -> Query:
    """Return the query with these pools of its channels."""
    retrieve = query.plan.retrieve
    named = {
        name: replace(plan, pool=pools.get(ChannelName(name), plan.pool)) for name, plan in retrieve.channels.items()
    }
    return replace(query, plan=replace(query.plan, retrieve=replace(retrieve, channels=named)))


def _continued(kept: Sequence[Hit], filled: RetrievalRound) -> RetrievalRound:
    """Return the filled round with the hits that were kept before all others, which score no more than they do. Where later
    steps changed scores, or chose hits for each other, their order stands."""
    selection = filled.arrived.query.plan.retrieve.selection
    has_own_order = (
        selection.diversity
        or selection.quality
        or any(hit.rerank is not None or hit.decay is not None for hit in filled.ordered)
    )
    if not kept or has_own_order:
        return filled
    known = {hit.chunk_id for hit in kept}
    others = [hit for hit in filled.ordered if hit.chunk_id not in known]
    least, most = kept[-1].score, max((hit.score for hit in others), default=0.0)
    if most > least:
        others = [
            replace(hit, score=hit.score * least / most, fused=lessened(hit.fused, least / most)) for hit in others
        ]
    ordered, _ = deduplicated([*kept, *others], selection.dedupe)
    returned, _ = select(ordered, filled.arrived.query.plan)
    return replace(filled, ordered=ordered, returned=returned)


def _may_have_more(answered: Envelope, query: Query) -> bool:
    is_full = len(answered.chunk_ids) >= query.pool_of(answered.channel)
    return answered.status != "ok" or is_full or bool((answered.guard or {}).get("may_be_short"))


def _caps(selection: SelectionPlan) -> str:
    caps = [] if selection.dedupe == "chunk" else [f"selection.dedupe {selection.dedupe}"]
    caps += [] if selection.per_document is None else [f"selection.per_document {selection.per_document}"]
    return " and ".join(caps)
