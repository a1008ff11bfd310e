"""Count the values by which a namespace's documents can be filtered."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeVar

from chordwise.contract.document import COMPARED, DocumentFields
from chordwise.contract.namespace import NamespaceFields, UsedValue, UsedValues

Scalar = str | int | float | bool
Counts = Counter[tuple[type, Any]]  # by value and its type: True == 1, and they filter differently
Ordered = TypeVar("Ordered", int, datetime)

_MOST_KEYS: Final = 50  # of metadata
_MOST_VALUES: Final = 200  # of types, authors and tags
_MOST_OF_KEY: Final = 20
_LONGEST_VALUE: Final = 200  # characters; nobody picks a longer one from a list
_MOST_COUNTED: Final = 20_000  # distinct values of one field; documents with further ones are not counted


@dataclass(slots=True)
class FieldTally:
    """Counts documents one by one, in memory bounded by the number of distinct values."""

    documents: int = 0
    _compared: dict[str, Counts] = field(default_factory=lambda: {name: Counter() for name in COMPARED})
    _tags: Counts = field(default_factory=Counter)
    _metadata: defaultdict[str, Counts] = field(default_factory=lambda: defaultdict(Counter))
    _published: set[datetime] = field(default_factory=set)  # the first and the last
    _story: set[int] = field(default_factory=set)

    def add(self, rows: Iterable[DocumentFields]) -> None:
        """Count these documents."""
        for fields in rows:
            self.documents += 1
            for name, counts in self._compared.items():
                _count(counts, getattr(fields, name))
            for tag in set(fields.tags):
                _count(self._tags, tag)
            for key, value in fields.metadata.items():
                if isinstance(value, str | int | float) and (
                    key in self._metadata or len(self._metadata) < _MOST_COUNTED
                ):
                    _count(self._metadata[key], value)
            if fields.published_at is not None:
                self._published = _ends({*self._published, fields.published_at})
            if fields.story_time is not None:
                self._story = _ends({*self._story, fields.story_time})

    def result(self, namespace: str, *, complete: bool) -> NamespaceFields:
        """Return the counts. ``complete``: all documents were added."""
        keys = sorted(self._metadata, key=lambda key: (-self._metadata[key].total(), key))
        return NamespaceFields(
            namespace=namespace,
            documents_read=self.documents,
            complete=complete,
            **{f"{name}s": _most_frequent(counts, _MOST_VALUES) for name, counts in self._compared.items()},
            tags=_most_frequent(self._tags, _MOST_VALUES),
            metadata={key: _most_frequent(self._metadata[key], _MOST_OF_KEY) for key in keys[:_MOST_KEYS]},
            metadata_keys=len(keys),
            published_from=min(self._published, default=None),
            published_to=max(self._published, default=None),
            story_from=min(self._story, default=None),
            story_to=max(self._story, default=None),
        )


def _count(counts: Counts, value: Scalar | None) -> None:
    key = (type(value), value)
    if value not in (None, "") and len(str(value)) <= _LONGEST_VALUE and (key in counts or len(counts) < _MOST_COUNTED):
        counts[key] += 1


def _ends(values: set[Ordered]) -> set[Ordered]:
    return {min(values), max(values)}


def _most_frequent(counts: Counts, most: int) -> UsedValues:
    ranked = sorted(counts.items(), key=lambda entry: (-entry[1], str(entry[0][1])))
    values = tuple(UsedValue(value=value, documents=count) for (_, value), count in ranked[:most])
    return UsedValues(values=values, distinct=len(counts))
