"""The readers of a document, and the principals of a caller: a caller sees the documents that share a principal with it."""

from collections.abc import Iterable, Sequence
from typing import Final

PUBLIC: Final = "public"  # a reader that every caller is
EVERY_DOCUMENT: Final = "*"  # the principal of a key that sees every document of its tenant
MOST_PRINCIPALS: Final = 1000  # of one caller
LONGEST_PRINCIPAL: Final = 255  # characters

# Of a caller, without `PUBLIC`; None sees every document.
Principals = frozenset[str] | None


def principals_of(names: Iterable[str]) -> Principals:
    """Return the principals with these names."""
    given = frozenset(names) - {PUBLIC}
    return None if EVERY_DOCUMENT in given else given


def stored_readers(readers: Iterable[str]) -> tuple[str, ...] | None:
    """Return readers as they are stored: each once, in order; None for a document that everyone may read."""
    names = tuple(sorted(set(readers)))
    return None if PUBLIC in names or not names else names


def may_read(readers: Sequence[str] | None, principals: Principals) -> bool:
    """Return whether a caller with these principals sees a document with these stored readers."""
    return principals is None or not readers or not principals.isdisjoint(readers)


def readers_filter(principals: Principals) -> tuple[str, ...] | None:
    """Return the principals in the form of `records.Filters.readers`."""
    return None if principals is None else tuple(sorted(principals))
