"""The table of transitions as SQL: what an UPDATE sets, and which rows it may touch."""

from __future__ import annotations

from pipeline.core.transitions import TRANSITIONS, Move


def becomes(move: Move) -> str:
    """``state = 'running'`` and the like, for SET."""
    return f"state = '{TRANSITIONS[move].target}'"


def may(move: Move) -> str:
    """``state IN ('queued')`` and the like, for WHERE."""
    return "state IN (" + ", ".join(f"'{state}'" for state in TRANSITIONS[move].sources) + ")"
