"""Count the values by which documents can be filtered: a namespace's, or those of a query's facets."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeVar

from chordwise.contract.document import COMPARED, DocumentFields
from chordwise.contract.namespace import NamespaceFields, UsedValue, UsedValues
from pipeline.filters.python_filters import METADATA

Scalar = str | int | float | bool
Counts = Counter[tuple[type, Any]]  # by value and its type: True == 1, and they filter differently
Ordered = TypeVar("Ordered", int, datetime)

COUNTED: Final = (*COMPARED, "tags")  # the fields of a document whose values facets count, beside keys of its metadata
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


def values_of(fields: DocumentFields, name: str) -> list[Scalar]:
    """Return the values of a field, or of a key of the metadata, that facets count, each once; those of a list one by one."""
    held = fields.metadata.get(name.removeprefix(METADATA)) if name.startswith(METADATA) else getattr(fields, name)
    if isinstance(held, str):
        return [held] if is_countable(held) else []
    every = (plain_number(value) for value in _single(held) if is_countable(value))
    return list({(type(value), value): value for value in every}.values())


def is_countable(value: Any) -> bool:
    """Return whether facets count a value: a text of 1 to 200 characters, a number or a truth value."""
    return 0 < len(value) <= _LONGEST_VALUE if isinstance(value, str) else isinstance(value, int | float)


def plain_number(value: Any) -> Any:
    """Return a whole number of 64 bits as an integer, whether it came as one or as a float; anything else unchanged."""
    return int(value) if isinstance(value, float) and value.is_integer() and -(2**63) <= value < 2**64 else value


def ranked(counts: Counts) -> list[tuple[Scalar, int]]:
    """Return values with their counts, the most frequent first, equal ones by their text."""
    ordered = sorted(counts.items(), key=lambda entry: (-entry[1], str(entry[0][1])))
    return [(value, count) for (_, value), count in ordered]


def _single(held: Any) -> Iterator[Any]:
    if isinstance(held, Sequence) and not isinstance(held, str):
        for value in held:
            yield from _single(value)
    else:
        yield held


def _count(counts: Counts, value: Scalar | None) -> None:
    key = (type(value), value)
    if value not in (None, "") and len(str(value)) <= _LONGEST_VALUE and (key in counts or len(counts) < _MOST_COUNTED):
        counts[key] += 1


def _ends(values: set[Ordered]) -> set[Ordered]:
    return {min(values), max(values)}


def _most_frequent(counts: Counts, most: int) -> UsedValues:
    values = tuple(UsedValue(value=value, documents=count) for value, count in ranked(counts)[:most])
    return UsedValues(values=values, distinct=len(counts))
