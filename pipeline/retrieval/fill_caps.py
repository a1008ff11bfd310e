"""Fill an answer that duplicates and caps on documents left short: ask the channels again for candidates within the caps."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from pipeline.channels.channel import Channel
from pipeline.query.plan import SelectionPlan
from pipeline.query.request import Envelope, Query, caps_of
from pipeline.records import ChannelName
from pipeline.retrieval.arrived import Arrived
from pipeline.retrieval.ask_channels import RESERVE_S
from pipeline.retrieval.retry_poor import LEAST_S, RetrievalRound, with_answers

# The channels that apply `Query.caps`.
_CAPPING: Final[tuple[ChannelName, ...]] = (ChannelName.KEYWORD, ChannelName.SEMANTIC)
_CODE: Final = "caps_not_filled"
_NOT_FILLED: Final = "{code}: {hits} of {top_k} hits, because {caps} left out {capped} others; {why}"
_NO_OTHERS: Final = "nothing else matches"
_MAY_BE_MORE: Final = "there may be others further down{where}"


def fill_caps(
    first: RetrievalRound, run: Callable[[Arrived], RetrievalRound], channels: Mapping[ChannelName, Channel]
) -> RetrievalRound:
    """Return the round or, where duplicates and caps left fewer than ``top_k`` hits of channels that recalled their whole
    pool, the ranking by ``run`` of these with the candidates that the channels find within the caps. A remark explains an
    answer that stays short. Costs nothing where the answer is full."""
    arrived, caps = first.arrived, caps_of(first.arrived.query.plan.retrieve.selection)
    query, journal = arrived.query, arrived.journal
    journal.remarks[:] = [remark for remark in journal.remarks if not remark.startswith(_CODE)]  # of an earlier round
    if caps is None or not first.capped or len(first.returned) >= query.top_k:
        return first
    started, best, where = time.perf_counter(), first, ""
    full = [name for name, envelope in arrived.usable.items() if len(envelope.chunk_ids) >= query.pool_of(name)]
    asked = {name: channels[name] for name in full if name in _CAPPING and name in channels}
    if query.deadline.left_s() < RESERVE_S + LEAST_S:
        where = ", for which no time was left"
    elif asked:
        left_out, ladder = list(journal.drops), journal.ladder
        journal.begin_again()
        widened, answered = with_answers(arrived, replace(query, caps=caps), asked, part="fill")
        filled = run(replace(widened, query=query))
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


def _may_have_more(answered: Envelope, query: Query) -> bool:
    is_full = len(answered.chunk_ids) >= query.pool_of(answered.channel)
    return answered.status != "ok" or is_full or bool((answered.guard or {}).get("may_be_short"))


def _caps(selection: SelectionPlan) -> str:
    caps = [] if selection.dedupe == "chunk" else [f"selection.dedupe {selection.dedupe}"]
    caps += [] if selection.per_document is None else [f"selection.per_document {selection.per_document}"]
    return " and ".join(caps)
