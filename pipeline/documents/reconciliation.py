"""The kinds of differences that the reconciler repairs, and its counts of all tenants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

KINDS = ("missing", "orphaned", "stale", "misplaced", "miscounted", "leftover", "statistics", "document_vectors")


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The reconciler's counts of all tenants, and the time of its last run (Unix time)."""

    counted: Mapping[str, int]
    last_run: float | None
    withheld: int = 0
