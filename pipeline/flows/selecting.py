"""Which of the ordered hits are returned."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.core.hits import Hit
from pipeline.core.plan import Plan
from pipeline.core.selection import select
from pipeline.flows.journal import Journal


def selected(hits: Sequence[Hit], plan: Plan, journal: Journal) -> list[Hit]:
    """The hits that are returned. Every one that is left out is noted with its number."""
    kept, dropped = select(hits, plan)
    journal.dropped(dropped)
    return kept
