"""Sources: the origins of documents."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from chordwise.contract.document import SourceKindName
from chordwise.contract.record import Answered


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceInfo(Answered):
    """A source with its documents. `statuses`: number of `documents` by status. `chunks`: the searchable ones.
    `encoding` is null unless all its documents share one; `page_start` and `page_end` are the first and the last page
    of any of them."""

    source_id: str
    namespace: str
    kind: SourceKindName
    uri: str | None
    media_type: str
    encoding: str | None
    page_start: int | None
    page_end: int | None
    documents: int
    statuses: Mapping[Literal["queued", "running", "succeeded", "failed", "cancelled"], int]
    chunks: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDeleted(Answered):
    """How many documents were deleted with a source."""

    source_id: str
    namespace: str
    documents: int
