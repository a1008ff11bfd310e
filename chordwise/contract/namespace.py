"""Namespaces, their values, and the alignment of the two stores."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime

from chordwise.contract.record import Answered, Complete


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences(Complete):
    """The differences between the stores: chunks without vector, vectors without chunk, vectors of another text or
    model, misplaced vectors, documents with too few or too many chunks, orphaned rows, namespaces (``statistics``)
    with a wrong number of chunks or terms, wrong vectors of whole documents."""

    missing: int = 0
    orphaned: int = 0
    stale: int = 0
    misplaced: int = 0
    miscounted: int = 0
    leftover: int = 0
    statistics: int = 0
    document_vectors: int = 0

    @property
    def aligned(self) -> bool:
        """Return whether there is no difference of any kind."""
        return not any(getattr(self, each.name) for each in fields(Differences))


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceAlignment(Differences):
    """How the two stores compare in one namespace."""

    namespace: str
    documents: int
    chunks: int
    vectors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment(Differences):
    """The comparison of the two stores. `repaired` counts corrections, `withheld` the vectors and rows of chunks that
    were not deleted because they are too large a share of the tenant's data."""

    namespaces: tuple[NamespaceAlignment, ...]
    repaired: int
    withheld: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceDeleted(Answered):
    """Numbers of deleted objects. `generations`: those whose rows were deleted in both stores at once."""

    namespace: str
    documents: int
    generations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedValue(Answered):
    """A value and the number of documents that have it."""

    value: str | int | float | bool
    documents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedValues(Answered):
    """The most frequent values; `distinct` counts the others too."""

    values: tuple[UsedValue, ...]
    distinct: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace(Complete):
    """A knowledge base and the amount of its searchable data. `revised_at`: its last change. `bytes`: the size of the
    uploads, null unless `sizes` was requested. `readers`: of new documents that name none, null for callers who do not see
    every document."""

    namespace: str
    documents: int
    chunks: int
    bytes: int | None = None
    created_at: datetime
    revised_at: datetime | None = None
    readers: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceFields(Answered):
    """The values that documents can be filtered by. `complete`: they were counted over all documents, else over the first
    `documents_read` by id. `metadata` has the most frequent 50 of `metadata_keys` keys; texts, numbers and booleans
    only. The bounds are those of `published_at` and `story_time`."""

    namespace: str
    documents_read: int
    complete: bool
    types: UsedValues
    authors: UsedValues
    tags: UsedValues
    metadata: Mapping[str, UsedValues]
    metadata_keys: int
    published_from: datetime | None
    published_to: datetime | None
    story_from: int | None
    story_to: int | None
