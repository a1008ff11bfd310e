"""Read the shown chunks of a namespace, each with its terms, text and fields, for an index outside of MySQL."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import starmap
from typing import NamedTuple

from sqlalchemy import Connection, Engine, text

from pipeline.database.engines import mysql_errors
from pipeline.database.rows import TenantStore, slices
from pipeline.database.statements import same_document, same_generation
from pipeline.documents.chunk_store import STORED
from pipeline.keyword.fulltext_store import PACKED
from pipeline.keyword.query_words import NamespaceSize
from pipeline.records import DocumentId, Namespace, TenantId
from pipeline.tenants.namespace_store import STAMP

_ROWS_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceState(NamespaceSize):
    """A namespace at one of its revisions, in MySQL or in an index; ``stamp`` as in `tenants.namespace_store.Revision`."""

    namespace: Namespace
    stamp: str
    revision: int
    revised_at: datetime | None
    created_at: datetime

    def has(self, stamp: str) -> bool:
        """Return whether this state includes everything the namespace showed at this stamp. A MySQL restored from a
        backup may have a smaller number again until the indexer notices; no change is missed meanwhile, since texts are
        read from MySQL."""
        wanted, _, moments = stamp.partition("@")
        mine, _, made = self.stamp.partition("@")
        same_namespace = made.partition("@")[0] == moments.partition("@")[0]
        return self.stamp == stamp or (same_namespace and int(mine) > int(wanted))


class IndexedChunk(NamedTuple):
    """A chunk as an index stores it: the columns of `fulltext_store.PACKED` and of `chunk_store.STORED`."""

    terms: bytes
    text: str
    fields: str


class IndexedChunks(TenantStore):
    """One tenant's shown chunks, read on a connection from `snapshot`."""

    def state(self, namespace: Namespace) -> NamespaceState | None:
        """Return the namespace's state; None if it does not exist."""
        row = self._run(_STATE, namespace=namespace).one_or_none()
        return None if row is None else NamespaceState(**{**row._mapping, "namespace": namespace})

    def of_documents(self, namespace: Namespace, document_ids: Sequence[DocumentId]) -> Iterator[IndexedChunk]:
        """Read the shown chunks of these documents."""
        for ids in slices(document_ids, _ROWS_AT_ONCE):
            yield from starmap(IndexedChunk, self._run(_OF_DOCUMENTS, namespace=namespace, documents=list(ids)))

    def all(self, namespace: Namespace) -> Iterator[IndexedChunk]:
        """Read every shown chunk of the namespace. A reader that stops early loses its connection."""
        is_read = False
        try:
            streamed = _ALL.execution_options(stream_results=True, yield_per=_ROWS_AT_ONCE)
            for rows in self._run(streamed, namespace=namespace).partitions():
                yield from starmap(IndexedChunk, rows)
            is_read = True
        finally:
            if not is_read:
                self._connection.invalidate()


@contextmanager
def snapshot(mysql: Engine) -> Iterator[Connection]:
    """Yield a connection whose statements all see one snapshot of MySQL. Raises StoreUnavailable."""
    with mysql_errors(), mysql.connect() as connection:
        connection = connection.execution_options(isolation_level="REPEATABLE READ")
        with connection.begin():
            connection.exec_driver_sql("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            yield connection


def revisions_of_all(connection: Connection) -> dict[TenantId, dict[Namespace, str]]:
    """Return the stamp of every namespace of every tenant. Reads one row per namespace."""
    revisions: dict[TenantId, dict[Namespace, str]] = {}
    for tenant_id, namespace, stamp in connection.execute(_REVISIONS):
        revisions.setdefault(TenantId(tenant_id), {})[Namespace(namespace)] = stamp
    return revisions


def chunk_counts(connection: Connection) -> dict[tuple[TenantId, Namespace], int]:
    """Return how many chunks each namespace of each tenant shows."""
    return {(TenantId(tenant), Namespace(name)): count for tenant, name, count in connection.execute(_CHUNK_COUNTS)}


_STATE = text(
    f"SELECT {STAMP}, n.revision, n.revised_at, n.created_at, n.chunk_count, n.term_count FROM namespaces n"
    " WHERE n.tenant_id = :tenant AND n.namespace = :namespace"
)
_REVISIONS = text(f"SELECT n.tenant_id, n.namespace, {STAMP} FROM namespaces n")
_CHUNK_COUNTS = text("SELECT tenant_id, namespace, chunk_count FROM namespaces WHERE chunk_count > 0")
_SHOWN = (
    f"SELECT {PACKED.format(c='c')}, {STORED} FROM documents d STRAIGHT_JOIN chunks c ON {same_document('c', 'd')}"
    f" AND c.generation = d.published_generation JOIN generations g ON {same_generation('g', 'c')}"
    " WHERE d.tenant_id = :tenant AND d.namespace = :namespace AND c.enabled = 1"
)
_ALL = text(_SHOWN)
_OF_DOCUMENTS = f"{_SHOWN} AND d.document_id IN :documents"
