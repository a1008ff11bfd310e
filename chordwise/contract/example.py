"""Books of examples."""

from collections.abc import Mapping
from dataclasses import dataclass

from chordwise.contract.record import Answered


@dataclass(frozen=True, slots=True, kw_only=True)
class BookStatistics(Answered):
    """Rows of a book. `read` is `accepted` + `refused` + `duplicates`; `grades` and `tags` are of accepted rows, a row
    without a grade under the empty name, and of tags the 100 most frequent."""

    read: int
    accepted: int
    refused: int
    duplicates: int
    blank: int
    grades: Mapping[str, int]
    tags: Mapping[str, int]
