"""Documents: the fields that callers send, the server stores, filters by and returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Final

from chordwise.contract.limits import Length, lengths

Title = Annotated[str, Length(1024)]
Author = Annotated[str, Length(255, example="ada")]
TypeName = Annotated[str, Length(64, least=1)]
Tag = Annotated[str, Length(128, least=1)]
Tags = Annotated[tuple[Tag, ...], Length(64)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentFields:
    """A document's descriptive fields, besides its text. `story_time` is in the unit of its namespace."""

    title: Title | None = None
    author: Author | None = None
    type: TypeName | None = None
    tags: Tags = ()
    published_at: datetime | None = None
    story_time: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Conditions on the document of a hit; all given ones must hold. `tags`: all of them.

    `start` and `end` bound `published_at`, both inclusive.
    """

    type: TypeName | None = None
    tags: Tags = ()
    author: Author | None = None
    start: datetime | None = None
    end: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


LENGTHS: Final = lengths(DocumentFields)
# The fields that a filter compares as a whole.
COMPARED: Final = tuple(name for name in lengths(Filters) if name != "tags")
