"""Statistics of a stored example library, and an import compared with the visible documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeline.records import JobId, Namespace

LENGTHS = (50, 100, 200, 500, 1000, 2000)  # characters; longer texts are counted without an upper bound


@dataclass(slots=True, kw_only=True)
class Spread:
    """Lengths in characters. ``up_to``: number of texts between each of `LENGTHS` and the previous one; None: longer
    ones."""

    count: int = 0
    total: int = 0
    shortest: int = 0
    longest: int = 0
    up_to: Counter[int | None] = field(default_factory=Counter)


@dataclass(slots=True, kw_only=True)
class Stored:
    """The shown examples of one type. A missing grade counts under the empty name."""

    examples: int = 0
    grades: Counter[str] = field(default_factory=Counter)
    tags: Counter[str] = field(default_factory=Counter)
    lengths: Spread = field(default_factory=Spread)


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicated:
    """Examples of one type with the same text: how many could go, and the documents of the largest groups."""

    surplus: int
    groups: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """An imported row and its present state."""

    document_id: str
    status: str
    code: str | None = None
    type: str | None = None
    user_input: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """An import compared with the visible documents. ``missing``: the first of those that no search can find."""

    job_id: JobId
    namespace: Namespace
    status: str
    rows: int
    searchable: int
    missing: Sequence[Accepted]
    sample: Sequence[Accepted]
