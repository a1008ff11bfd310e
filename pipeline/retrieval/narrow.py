"""From every hit that can be shown to those worth reading closely."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.ranking.decay import decayed
from pipeline.ranking.dedupe import deduplicated
from pipeline.ranking.hits import Hit
from pipeline.ranking.threshold_ladder import stepped_down
from pipeline.records import ChannelName
from pipeline.retrieval.arrived import Arrived
from pipeline.retrieval.journal import Journal


def narrowed(arrived: Arrived, hits: Sequence[Hit], journal: Journal) -> list[Hit]:
    """The hits with what age leaves of their scores, each thing once, and similar enough. What the plan does not ask for
    costs nothing."""
    retrieve, kept = arrived.query.plan.retrieve, list(hits)
    if retrieve.time_decay is not None:
        kept = decayed(kept, retrieve.time_decay, arrived.query.present)
        journal.saw("decay", kept)
    if retrieve.selection.dedupe != "chunk":
        kept, same = deduplicated(kept, retrieve.selection.dedupe)
        journal.dropped(same)
        journal.saw("dedupe", kept)
    if retrieve.ladder is not None:
        semantic = arrived.usable.get(ChannelName.SEMANTIC)
        kept, unlike, journal.rung = stepped_down(
            kept,
            retrieve.ladder,
            top_k=arrived.query.top_k,
            zero=None if semantic is None else semantic.zero,
            per_document=retrieve.selection.per_document,
        )
        journal.dropped(unlike)
        journal.saw("ladder", kept)
    return kept
