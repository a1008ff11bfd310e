"""Read the contents of both stores for some documents in the same terms, to compare them page by page; and the reconciler's
position with each tenant and its counts, which survive restarts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import accumulate, chain
from typing import Any

from sqlalchemy import Connection, Engine, Executable, Row, text

from pipeline.database.engines import postgres_errors
from pipeline.database.rows import TenantStore, now, readers_of, record_of, slices
from pipeline.database.statements import OF_DOCUMENTS, same_document, sql
from pipeline.documents.document_views import KINDS, Totals
from pipeline.embedding.migration_store import Cursor
from pipeline.records import ChunkId, DocumentId, Namespace, TenantId

# Some documents, and the last of them unless it is the end.
DocumentPage = tuple[tuple[DocumentId, ...], DocumentId | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorRow:
    """The row of one vector in PostgreSQL."""

    chunk_id: ChunkId
    namespace: str
    document_id: str
    generation: int
    model: str
    content_hash: bytes
    readers: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRow:
    """The row of one chunk in MySQL."""

    chunk_id: ChunkId
    document_id: str
    generation: int
    ordinal: int
    content_hash: bytes
    enabled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentRow:
    """The pointer of a document. ``chunk_count``: the chunks of the published generation, less deleted ones."""

    document_id: str
    published: int | None
    chunk_count: int | None
    readers: tuple[str, ...] | None = None


class AlignedRows(TenantStore):
    """One tenant's rows in MySQL, to compare them with its vectors."""

    def page(self, namespace: Namespace, *, after: str, documents: int, chunks: int) -> DocumentPage:
        """Return the documents after the given id, within both bounds, at least one."""
        rows = self._run(_DOCUMENT_PAGE, namespace=namespace, after=after, limit=documents)
        return _page([(row.document_id, row.chunk_count or 0) for row in rows], documents=documents, chunks=chunks)

    def documents(
        self, namespace: Namespace, document_ids: Sequence[DocumentId], *, lock: bool = False
    ) -> dict[str, DocumentRow]:
        """Return the pointers of these documents; ``lock``: locked until the transaction ends."""
        if lock:
            self._of_documents(_LOCK, namespace, document_ids)
        rows = self._of_documents(_POINTERS, namespace, document_ids)
        return {
            row.document_id: record_of(
                DocumentRow, row, published=row.published_generation, readers=readers_of(row.readers)
            )
            for row in rows
        }

    def chunks(self, namespace: Namespace, document_ids: Sequence[DocumentId]) -> list[ChunkRow]:
        """Return every chunk of these documents, of any generation."""
        rows = self._of_documents(_CHUNKS, namespace, document_ids)
        return [record_of(ChunkRow, row, enabled=bool(row.enabled)) for row in rows]

    def busy_generations(self, namespace: Namespace, document_ids: Sequence[DocumentId]) -> set[tuple[str, int]]:
        """Return generations of unfinished jobs and those that wait to be dropped: neither missing nor orphaned."""
        return {(row.document_id, row.generation) for row in self._of_documents(_BUSY, namespace, document_ids)}

    def parents_lost(self, namespace: Namespace, document_ids: Sequence[DocumentId]) -> set[str]:
        """Return the documents that publish a child whose parent is missing."""
        return {row.document_id for row in self._of_documents(_LOST_PARENTS, namespace, document_ids)}

    def parent_counts(self, namespace: Namespace, document_ids: Sequence[DocumentId]) -> dict[tuple[str, int], int]:
        """Return the number of parents of each generation of these documents."""
        rows = self._of_documents(_PARENT_COUNTS, namespace, document_ids)
        return {(row.document_id, row.generation): row.parents for row in rows}

    def chunks_elsewhere(self, chunk_ids: Sequence[ChunkId]) -> set[ChunkId]:
        """Return which of these are chunks of another tenant, with vectors under a wrong one. Reads only ids."""
        return set(self._run(_ELSEWHERE, ids=list(chunk_ids)).scalars()) if chunk_ids else set()

    def chunk_count(self) -> int:
        """Return the number of rows of chunks, of every generation."""
        return int(self._run("SELECT COUNT(*) FROM chunks WHERE tenant_id = :tenant").scalar_one())

    def uncounted(self, namespace: Namespace) -> tuple[int, int]:
        """Return the shown chunks that the namespace's row does not count, and their terms; negative: too many are. One
        statement, so it sees both at one moment."""
        row = self._run(_UNCOUNTED, namespace=namespace).one_or_none()
        return (0, 0) if row is None else (int(row.chunks), int(row.terms))

    def _of_documents(
        self, statement: Executable, namespace: Namespace, document_ids: Sequence[DocumentId]
    ) -> Sequence[Row[*tuple[Any, ...]]]:
        return self._run(statement, namespace=namespace, ids=list(document_ids)).all() if document_ids else ()


class AlignedVectors:
    """One tenant's vectors in one table of PostgreSQL, to compare them with its rows."""

    def __init__(self, postgres: Engine, tenant_id: TenantId, *, table: str) -> None:
        self._postgres = postgres
        self._tenant_id = tenant_id
        self._table = table

    def page(self, namespace: Namespace, *, after: str, documents: int, chunks: int) -> DocumentPage:
        """Return the documents that have vectors, in PostgreSQL's own order; see `AlignedRows.page`."""
        rows = self._run(_VECTOR_PAGE, namespace=namespace, after=after, limit=documents)
        return _page([(row.document_id, row.vectors) for row in rows], documents=documents, chunks=chunks)

    def of_documents(self, namespace: Namespace, document_ids: Sequence[DocumentId]) -> dict[ChunkId, VectorRow]:
        """Return every vector under one of these documents."""
        return _vectors(self._run(_VECTORS, namespace=namespace, ids=list(document_ids)))

    def by_id(self, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, VectorRow]:
        """Return the vectors of these chunks, under whichever document."""
        rows = (self._run(_VECTORS_BY_ID, ids=list(ids)) for ids in slices(chunk_ids, 1000))
        return _vectors(chain.from_iterable(rows))

    def namespaces(self) -> set[Namespace]:
        """Return the namespaces that have vectors, known to MySQL or not. Costs one index lookup for each."""
        return {Namespace(row.namespace) for row in self._run(_VECTOR_NAMESPACES) if row.namespace is not None}

    def count(self) -> int:
        """Return the number of vectors."""
        return int(self._run("SELECT count(*) FROM {table} WHERE tenant_id = :tenant")[0][0])

    def delete(self, chunk_ids: Sequence[ChunkId]) -> None:
        """Delete exactly these vectors; an empty list deletes nothing."""
        with postgres_errors(), self._postgres.begin() as connection:
            for ids in slices(chunk_ids, 1000):
                statement = text(_DELETE.format(table=self._table))
                connection.execute(statement, {"tenant": self._tenant_id, "ids": list(ids)})

    def _run(self, statement: str, **values: Any) -> Sequence[Row[*tuple[Any, ...]]]:
        with postgres_errors(), self._postgres.connect() as connection:
            prepared = text(statement.format(table=self._table))
            return connection.execute(prepared, {"tenant": self._tenant_id, **values}).all()


def _page(counts: Sequence[tuple[str, int]], *, documents: int, chunks: int) -> DocumentPage:
    sizes = accumulate(count for _, count in counts)
    ids = tuple(DocumentId(document_id) for (document_id, _), size in zip(counts, sizes, strict=True) if size <= chunks)
    ids = ids or tuple(DocumentId(document_id) for document_id, _ in counts[:1])
    is_last = len(ids) == len(counts) < documents
    return ids, None if is_last or not ids else ids[-1]


def _vectors(rows: Iterable[Any]) -> dict[ChunkId, VectorRow]:
    return {
        ChunkId(row.chunk_id): record_of(VectorRow, row, readers=None if row.readers is None else tuple(row.readers))
        for row in rows
    }


_DOCUMENT_PAGE = sql(
    f"SELECT d.document_id, g.chunk_count FROM documents d LEFT JOIN generations g ON {same_document('g', 'd')}"
    " AND g.generation = d.published_generation WHERE d.tenant_id = :tenant AND d.namespace = :namespace"
    " AND d.document_id > :after ORDER BY d.document_id LIMIT :limit"
)

_VECTOR_PAGE = (
    "SELECT document_id, count(*) AS vectors FROM {table}"
    " WHERE tenant_id = :tenant AND namespace = :namespace AND document_id > :after"
    " GROUP BY document_id ORDER BY document_id LIMIT :limit"
)

_SHOWN_CHUNKS = (
    f"FROM documents d JOIN chunks c ON {same_document('c', 'd')} AND c.generation = d.published_generation"
    " WHERE d.tenant_id = n.tenant_id AND d.namespace = n.namespace AND c.enabled = 1"
)
_UNCOUNTED = (
    f"SELECT (SELECT COUNT(*) {_SHOWN_CHUNKS}) - n.chunk_count AS chunks,"
    f" (SELECT COALESCE(SUM(c.term_count), 0) {_SHOWN_CHUNKS}) - n.term_count AS terms"
    " FROM namespaces n WHERE n.tenant_id = :tenant AND n.namespace = :namespace"
)

_LOCK = sql(f"SELECT document_id FROM documents WHERE {OF_DOCUMENTS} ORDER BY document_id FOR UPDATE")

_POINTERS = sql(
    "SELECT d.document_id, d.published_generation, g.chunk_count, g.readers FROM documents d"
    f" LEFT JOIN generations g ON {same_document('g', 'd')} AND g.generation = d.published_generation"
    " WHERE d.tenant_id = :tenant AND d.namespace = :namespace AND d.document_id IN :ids"
)

_CHUNKS = sql(
    f"SELECT document_id, generation, ordinal, chunk_id, content_hash, enabled FROM chunks WHERE {OF_DOCUMENTS}"
)

_BUSY = sql(
    "SELECT g.document_id, g.generation FROM generations g"
    " JOIN jobs j ON j.tenant_id = g.tenant_id AND j.job_id = g.job_id"
    " WHERE g.tenant_id = :tenant AND g.namespace = :namespace AND g.document_id IN :ids AND j.finished_at IS NULL"
    " UNION SELECT r.document_id, r.generation FROM retired_generations r"
    " WHERE r.tenant_id = :tenant AND r.namespace = :namespace AND r.document_id IN :ids"
)

_VECTOR_COLUMNS = "SELECT chunk_id, namespace, document_id, generation, model, content_hash, readers FROM {table}"
_VECTORS = _VECTOR_COLUMNS + " WHERE tenant_id = :tenant AND namespace = :namespace AND document_id = ANY(:ids)"
_VECTORS_BY_ID = _VECTOR_COLUMNS + " WHERE tenant_id = :tenant AND chunk_id = ANY(CAST(:ids AS uuid[]))"

_ELSEWHERE = sql(
    "SELECT c.chunk_id FROM tenants t JOIN chunks c ON c.tenant_id = t.tenant_id"
    " WHERE t.tenant_id <> :tenant AND c.chunk_id IN :ids"
)

# Jumps from one namespace to the next instead of reading every row.
_VECTOR_NAMESPACES = """
WITH RECURSIVE names AS (
    (SELECT namespace FROM {table} WHERE tenant_id = :tenant ORDER BY namespace LIMIT 1)
    UNION ALL
    SELECT (SELECT e.namespace FROM {table} e WHERE e.tenant_id = :tenant AND e.namespace > names.namespace
            ORDER BY e.namespace LIMIT 1)
    FROM names WHERE names.namespace IS NOT NULL
)
SELECT namespace FROM names
"""

_DELETE = "DELETE FROM {table} WHERE tenant_id = :tenant AND chunk_id = ANY(CAST(:ids AS uuid[]))"
_LOST_PARENTS = sql(
    f"SELECT DISTINCT d.document_id FROM documents d JOIN chunks c ON {same_document('c', 'd')}"
    " AND c.generation = d.published_generation LEFT JOIN parent_chunks p ON p.tenant_id = c.tenant_id"
    " AND p.chunk_id = c.parent_id WHERE d.tenant_id = :tenant AND d.namespace = :namespace AND d.document_id IN :ids"
    " AND c.parent_id IS NOT NULL AND p.chunk_id IS NULL"
)

_PARENT_COUNTS = sql(
    f"SELECT document_id, generation, COUNT(*) AS parents FROM parent_chunks WHERE {OF_DOCUMENTS}"
    " GROUP BY document_id, generation"
)


COUNTED = ("chunks", *KINDS, "repaired")
MOST_NAMED = 3  # tenants whose deletions are withheld


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletions:
    """Deletions of a pass over a tenant. ``withheld``: too many for the reconciler; an operator decides, 0: none."""

    pass_deleted: int = 0
    pass_withheld: int = 0
    withheld: int = 0


def next_tenant(connection: Connection) -> TenantId | None:
    """Return the tenant with the oldest check, None if there is no tenant."""
    tenant_id: TenantId | None = connection.execute(_NEXT).scalar_one_or_none()
    return tenant_id


def position_of(connection: Connection, tenant_id: TenantId) -> Cursor:
    """Return the position at which the last run stopped; the beginning without one."""
    return Cursor.of(connection.execute(_POSITION, {"tenant": tenant_id}).one_or_none())


def store(
    connection: Connection, tenant_id: TenantId, position: Cursor, counts: Mapping[str, int], deletions: Deletions
) -> None:
    """Store the position to continue at and the deleted and withheld counts, and add to the other counts."""
    values = {name: counts.get(name, 0) for name in COUNTED}
    connection.execute(_STORE, {"tenant": tenant_id, "now": now(), **asdict(position), **values, **asdict(deletions)})


def deletions_of(connection: Connection, tenant_id: TenantId) -> Deletions:
    """Return how many rows the tenant's passes have deleted and withheld."""
    row = connection.execute(_DELETIONS, {"tenant": tenant_id}).mappings().one_or_none()
    return Deletions() if row is None else Deletions(**{name: int(count) for name, count in row.items()})


def store_withheld(connection: Connection, tenant_id: TenantId, withheld: int) -> None:
    """Store how much a comparison outside the reconciler has withheld; 0 lets the reconciler delete again."""
    connection.execute(_STORE_WITHHELD, {"tenant": tenant_id, "now": now(), "withheld": withheld})


def withheld_by_tenant(connection: Connection) -> dict[TenantId, int]:
    """Return the first `MOST_NAMED` tenants whose deletions wait for an operator, the largest counts first."""
    return {TenantId(tenant_id): withheld for tenant_id, withheld in connection.execute(_WITHHELD)}


def totals(connection: Connection) -> Totals:
    """Return sums over all tenants; no ids."""
    row = connection.execute(_TOTALS).mappings().one()
    return Totals(
        counted={name: int(row[name] or 0) for name in COUNTED},
        last_run=None if row["last_run"] is None else float(row["last_run"]),
        withheld=int(row["withheld"] or 0),
    )


_NEXT = sql(
    "SELECT t.tenant_id FROM tenants t LEFT JOIN alignment_state a ON a.tenant_id = t.tenant_id"
    " ORDER BY a.checked_at IS NOT NULL, a.checked_at, t.tenant_id LIMIT 1"
)

_POSITION = sql("SELECT namespace, phase, after_document FROM alignment_state WHERE tenant_id = :tenant")

_OF_DELETIONS = tuple(field.name for field in fields(Deletions))

_STORE = sql(
    "INSERT INTO alignment_state"
    f" (tenant_id, namespace, phase, after_document, checked_at, {', '.join((*COUNTED, *_OF_DELETIONS))})"
    " VALUES (:tenant, :namespace, :phase, :after, :now,"
    f" {', '.join(f':{name}' for name in (*COUNTED, *_OF_DELETIONS))})"
    " ON DUPLICATE KEY UPDATE namespace = VALUES(namespace), phase = VALUES(phase),"
    " after_document = VALUES(after_document), checked_at = VALUES(checked_at), "
    + ", ".join(f"{name} = VALUES({name})" for name in _OF_DELETIONS)
    + ", "
    + ", ".join(f"{name} = {name} + VALUES({name})" for name in COUNTED)
)

_DELETIONS = sql(f"SELECT {', '.join(_OF_DELETIONS)} FROM alignment_state WHERE tenant_id = :tenant")

_STORE_WITHHELD = sql(
    "INSERT INTO alignment_state (tenant_id, checked_at, withheld) VALUES (:tenant, :now, :withheld)"
    " ON DUPLICATE KEY UPDATE pass_deleted = 0, pass_withheld = 0, withheld = VALUES(withheld)"
)

_WITHHELD = sql(
    "SELECT tenant_id, withheld FROM alignment_state WHERE withheld > 0"
    f" ORDER BY withheld DESC, tenant_id LIMIT {MOST_NAMED}"
)

_TOTALS = sql(
    "SELECT UNIX_TIMESTAMP(MAX(checked_at)) AS last_run, SUM(withheld) AS withheld, "
    + ", ".join(f"SUM({name}) AS {name}" for name in COUNTED)
    + " FROM alignment_state"
)
