"""Which of the ordered hits are returned."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.query.plan import Plan
from pipeline.ranking.hits import Hit
from pipeline.ranking.selection import select
from pipeline.retrieval.journal import Journal


def selected(hits: Sequence[Hit], plan: Plan, journal: Journal) -> list[Hit]:
    """The hits that are returned. Every one that is left out is noted with its number."""
    kept, dropped = select(hits, plan)
    journal.dropped(dropped)
    return kept
