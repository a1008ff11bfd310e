"""Fill the groups of an answer: ask the channels for candidates of groups that are missing or short of hits."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from chordwise.contract.answer import Group
from pipeline.channels.channel import Channel
from pipeline.filters.python_filters import METADATA
from pipeline.query.plan import SelectionPlan
from pipeline.query.request import Query, filters_as_sent
from pipeline.ranking.selection import Groups, are_full, grouped
from pipeline.records import ChannelName, Comparison, Compound, Condition, Filters, Scalar
from pipeline.retrieval.arrived import Arrived
from pipeline.retrieval.ask_channels import RESERVE_S
from pipeline.retrieval.fill_caps import CAPPING, with_pools
from pipeline.retrieval.retry_poor import LEAST_S, RetrievalRound, with_answers

_MOST_ROUNDS: Final = 6
_LARGEST_POOL: Final = 1000
_CODE: Final = "groups_not_filled"
_NOT_FILLED: Final = "{code}: {full} of {wanted} groups by {field} have {size} hits, {groups} have any; {why}"
_NO_OTHERS: Final = "nothing else matches"
_NO_TIME: Final = "there may be others further down, for which no time was left"
_TOO_DEEP: Final = "there may be others further down"


def fill_groups(
    first: RetrievalRound, run: Callable[[Arrived], RetrievalRound], channels: Mapping[ChannelName, Channel]
) -> RetrievalRound:
    """Return the round, or one by ``run`` of it together with what channels with further candidates find: first outside
    the full groups, until there are ``top_k``, then in the others. A remark explains groups that stay short."""
    arrived, journal = first.arrived, first.arrived.journal
    query, how = arrived.query, arrived.query.plan.retrieve.selection
    journal.remarks[:] = [remark for remark in journal.remarks if not remark.startswith(_CODE)]  # of an earlier round
    best, started, why = first, time.perf_counter(), _TOO_DEEP
    pools = {name: query.pool_of(name) for name in arrived.usable if name in CAPPING and name in channels}
    more = [name for name in pools if len(arrived.usable[name].chunk_ids) >= pools[name]]
    for _ in range(_MOST_ROUNDS):
        groups = grouped(best.returned, how, query.top_k)
        if are_full(groups, how, query.top_k):
            return best
        if not more:
            why = _NO_OTHERS
            break
        if query.deadline.left_s() < RESERVE_S + LEAST_S:
            why = _NO_TIME
            break
        wanted = _narrowed(query, groups)
        if wanted is None:
            pools = {name: 2 * pool for name, pool in pools.items()}
        if max(pools.values()) > _LARGEST_POOL:
            break
        journal.begin_again()
        again = with_pools(wanted or query, pools)
        arrived, answered = with_answers(arrived, again, {name: channels[name] for name in more}, part="fill")
        arrived = replace(arrived, query=query)
        more = [name for name, envelope in answered.items() if len(envelope.chunk_ids) >= pools[name]]
        best = run(arrived)
    groups = grouped(best.returned, how, query.top_k)
    if best is not first:
        journal.asked_again = best.arrived.envelopes
        journal.took("fill", started)
    journal.remarks.append(
        _NOT_FILLED.format(
            code=_CODE,
            full=sum(len(group) == how.group_size for group in groups.values()),
            wanted=query.top_k,
            field=how.group_by,
            size=how.group_size,
            groups=len(groups),
            why=why,
        )
    )
    return best


def answer_groups(ranked: RetrievalRound) -> tuple[Group, ...] | None:
    """Return the groups of an answer, each with the query for its other hits; None for an answer without groups."""
    query, how = ranked.arrived.query, ranked.arrived.query.plan.retrieve.selection
    if how.group_by is None:
        return None
    return tuple(
        Group(
            value=value,
            chunk_ids=(chunk_ids := tuple(hit.chunk_id for hit in group)),
            next=_next(query, how, value, chunk_ids) if len(group) == how.group_size else None,
        )
        for (_, value), group in grouped(ranked.returned, how, query.top_k).items()
    )


def having(field: str, value: Scalar | None) -> Condition:
    """Return the condition that a field has a value, or holds it in a list; for None, that it has none."""
    key, own = field.removeprefix(METADATA), not field.startswith(METADATA)
    if value is None:
        exists = Comparison(key=key, operator="exists", value=True, own=own)
        return Compound(operator="not", parts=(exists,))
    operator: Final = "eq" if own and key != "tags" else "has"
    return Comparison(key=key, operator=operator, value=value, own=own)


def with_condition(filters: Filters, condition: Condition) -> Filters:
    """Return the filters with one more condition."""
    both = condition if filters.where is None else Compound(operator="and", parts=(filters.where, condition))
    return replace(filters, where=both)


def _next(query: Query, how: SelectionPlan, value: Scalar | None, chunk_ids: tuple[str, ...]) -> dict[str, object]:
    filters = filters_as_sent(with_condition(query.filters, having(how.group_by or "", value)))
    filters.pop("story_time", None)  # a field of the query itself
    return {"filters": filters, "exclude": list(dict.fromkeys((*query.exclude, *chunk_ids)))}


def _narrowed(query: Query, groups: Groups) -> Query | None:
    """Return the query for the groups that are short of hits, or while some are missing, for all but the full ones; None if
    that is the query itself."""
    how = query.plan.retrieve.selection
    full = [value for (_, value), group in groups.items() if len(group) == how.group_size]
    if len(groups) == query.top_k:
        short = [value for (_, value), group in groups.items() if len(group) < how.group_size]
        condition: Condition = Compound(
            operator="or", parts=tuple(having(how.group_by or "", value) for value in short)
        )
    elif full:
        any_of = Compound(operator="or", parts=tuple(having(how.group_by or "", value) for value in full))
        condition = Compound(operator="not", parts=(any_of,))
    else:
        return None
    return replace(query, filters=with_condition(query.filters, condition))
