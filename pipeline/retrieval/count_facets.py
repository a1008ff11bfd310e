"""Count the values of a query's facets: over all passages that match where the keyword index can, else over the pool."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from chordwise.contract.answer import Facet, FacetValue
from pipeline.channels.channel import Channel
from pipeline.channels.keyword_channel import KeywordChannel
from pipeline.filters.expressions import write_filter
from pipeline.filters.python_filters import condition_as_json, unmet
from pipeline.filters.used_fields import Counts, ranked, values_of
from pipeline.query.request import copied
from pipeline.records import ChannelName, ChunkId, DocumentFields, Scalar
from pipeline.resources import Resources
from pipeline.retrieval.arrived import Arrived
from pipeline.retrieval.fill_groups import having
from pipeline.retrieval.load_text import ShownChunks

_MOST_LISTED: Final = 20  # values of a facet
_MOST_READ: Final = 1000  # passages of the pool


def count_facets(arrived: Arrived, use: Resources, channels: Mapping[ChannelName, Channel]) -> tuple[Facet, ...] | None:
    """Return the facets that the plan asks for, in its order; None without any, and where counting failed, which is a
    loss. The same filters apply to what is counted as to hits."""
    query, fields = arrived.query, arrived.query.plan.facets
    if not fields:
        return None
    supplied = {passage.chunk_id for envelope in arrived.usable.values() for passage in envelope.supplied}
    recalled = (chunk_id for envelope in arrived.usable.values() for chunk_id, _ in envelope.admitted)
    pool = [ChunkId(chunk_id) for chunk_id in dict.fromkeys(recalled) if chunk_id not in supplied]
    counted = None
    with arrived.journal.losing("facets", "the values of fields were not counted"):
        keyword = channels.get(ChannelName.KEYWORD)
        if ChannelName.KEYWORD in arrived.usable and isinstance(keyword, KeywordChannel):
            counted = keyword.count_values(query, pool, fields)
        total, counts, unread = counted or (0, [(Counts(), 0) for _ in fields], pool[:_MOST_READ])
        total += _add_fields(counts, _fields_of(arrived, unread, use), fields)
        over: Literal["matches", "pool"] = "pool" if counted is None else "matches"
        return tuple(
            _facet(name, values, unnamed, over=over, passages=total)
            for name, (values, unnamed) in zip(fields, counts, strict=True)
        )
    return None


def _fields_of(arrived: Arrived, chunk_ids: Sequence[ChunkId], use: Resources) -> list[DocumentFields]:
    """Return the fields of those chunks that are shown and pass the filters."""
    if not chunk_ids:
        return []
    shown = ShownChunks(arrived.query, use)
    every = (copied(DocumentFields, chunk) for chunk in shown.read(chunk_ids).values())
    return [fields for fields in every if unmet(arrived.query.filters, fields) is None]


def _add_fields(counts: Sequence[tuple[Counts, int]], read: Sequence[DocumentFields], fields: Sequence[str]) -> int:
    for name, (of_field, _) in zip(fields, counts, strict=True):
        of_field.update((type(value), value) for document in read for value in values_of(document, name))
    return len(read)


def _facet(field: str, counts: Counts, unnamed: int, *, over: Literal["matches", "pool"], passages: int) -> Facet:
    ordered = ranked(counts)
    return Facet(
        field=field,
        counted_over=over,
        passages=passages,
        values=tuple(
            FacetValue(value=value, passages=count, filter=_expression(field, value))
            for value, count in ordered[:_MOST_LISTED]
        ),
        other=unnamed + sum(count for _, count in ordered[_MOST_LISTED:]),
        distinct=None if unnamed else len(ordered),
    )


def _expression(field: str, value: Scalar) -> str:
    return write_filter({"where": condition_as_json(having(field, value))}) or ""
