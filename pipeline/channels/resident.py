"""The keyword indexes that this process holds in memory; see `channels.copies`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Unpack

from sqlalchemy import Engine

from pipeline.channels.copies import Copies, How, Key, Read
from pipeline.core.feedback import Terms
from pipeline.core.listing import Listing, listed
from pipeline.core.postings import Postings, PostingsBuilder, TooManyPlaces
from pipeline.records import ChunkId, Namespace, TenantId
from pipeline.stores.keyword import KeywordIndex
from pipeline.stores.namespaces import Namespaces
from pipeline.stores.statistics import NamespaceStatistics
from pipeline.stores.work import reading

_BYTES_PER_TERM = 4.0  # of the arrays of a large namespace; one that has few chunks has more different terms for each
_BYTES_PER_CHUNK = 52
_ROWS_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class Index:
    """A namespace's postings, and their listing where there is room."""

    postings: Postings
    listing: Listing | None

    @property
    def byte_count(self) -> int:
        """What the arrays take."""
        return self.postings.byte_count + (0 if self.listing is None else self.listing.byte_count)

    @property
    def figures(self) -> Mapping[str, int]:
        """How much is in it."""
        return {"chunks": len(self.postings.lengths), "terms": self.postings.term_count}

    def slimmer(self) -> Index:
        """The postings alone."""
        return self if self.listing is None else replace(self, listing=None)


class ResidentIndexes:
    """Copies of at most ``most_bytes`` together, by tenant and namespace. For the rest see `Copies`."""

    def __init__(self, mysql: Engine, *, most_bytes: int, **how: Unpack[How]) -> None:
        self._mysql = mysql
        self._most_bytes = most_bytes
        self._copies = Copies[Index]("keyword_index", self._read, most_bytes=most_bytes, **how)

    @property
    def byte_count(self) -> int:
        """What all copies take."""
        return self._copies.byte_count

    def holds(self, tenant_id: TenantId, namespaces: Sequence[Namespace]) -> bool:
        """Whether there is a copy of each, good or not."""
        return self._copies.holds([_key(tenant_id, namespace) for namespace in namespaces])

    def of(
        self, tenant_id: TenantId, namespaces: Sequence[Namespace], stamps: Mapping[Namespace, str]
    ) -> dict[Namespace, Postings] | None:
        """A copy of each namespace at its stamp; None if one is missing."""
        found = self._found(tenant_id, namespaces, stamps)
        if found is None:
            return None
        return {namespace: index.postings for namespace, index in zip(namespaces, found, strict=True)}

    def terms(
        self,
        tenant_id: TenantId,
        namespaces: Sequence[Namespace],
        stamps: Mapping[Namespace, str],
        chunk_ids: Sequence[ChunkId],
    ) -> dict[ChunkId, Terms] | None:
        """The tokens of these chunks, by copies of all of these namespaces; None if something is missing."""
        found = self._found(tenant_id, namespaces, stamps) or []
        copies = [(index.postings, index.listing) for index in found if index.listing is not None]
        return listed(copies, chunk_ids) if copies else None

    def note(self, tenant_id: TenantId, sizes: Mapping[Namespace, NamespaceStatistics]) -> None:
        """These namespaces are being asked about without a copy; their figures were just read."""
        self._copies.note({_key(tenant_id, name): (size.stamp, _estimated_bytes(size)) for name, size in sizes.items()})

    def _found(
        self, tenant_id: TenantId, namespaces: Sequence[Namespace], stamps: Mapping[Namespace, str]
    ) -> list[Index] | None:
        return self._copies.of({_key(tenant_id, namespace): stamps.get(namespace) for namespace in namespaces})

    def _read(self, key: Key) -> Read[Index]:
        """What the namespace shows at a stamp.

        The rows are read by one statement, and so are of one moment; the stamp was the same before and after it, and no
        stamp comes back, so it was the same at that moment.
        """
        tenant_id, namespace, _ = key
        builder = PostingsBuilder()
        with reading(self._mysql) as connection:
            namespaces = Namespaces(connection, tenant_id)
            before = namespaces.revisions([namespace])
            for rows in KeywordIndex(connection, tenant_id).shown(namespace, at_once=_ROWS_AT_ONCE):
                builder.add([row.chunk_id for row in rows], [row.terms for row in rows], [row.fields for row in rows])
                if builder.term_count * _BYTES_PER_TERM > self._most_bytes:
                    return Read("too_large")
            after = namespaces.revisions([namespace])
        if not before or before != after:
            return Read("changed")
        try:
            postings = builder.build()
        except TooManyPlaces:
            return Read("too_large")
        return Read("loaded", before[namespace].stamp, Index(postings, Listing.of(postings)))


def _key(tenant_id: TenantId, namespace: Namespace) -> Key:
    return tenant_id, namespace, ""


def _estimated_bytes(size: NamespaceStatistics) -> float:
    """What a copy will take at least."""
    return _BYTES_PER_TERM * size.term_count + _BYTES_PER_CHUNK * size.chunk_count
