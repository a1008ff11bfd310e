"""The readers of documents: those of new uploads, and those that are changed in place."""

from collections.abc import Sequence
from dataclasses import replace

from pipeline.database.mysql_tables import generations
from pipeline.database.rows import TenantStore, by_namespace, now, readers_of, to_json
from pipeline.database.statements import OF_DOCUMENTS, columns, same_document, sql
from pipeline.documents.document_store import fields_of
from pipeline.filters.python_filters import unmet
from pipeline.filters.readers import stored_readers
from pipeline.filters.sql_filters import mysql_condition
from pipeline.records import DocumentFields, DocumentId, Filters, Generation, Namespace, Upload


class DocumentReaders(TenantStore):
    """One tenant's documents and their readers."""

    def with_readers(
        self, namespace: Namespace, uploads: Sequence[tuple[Generation, Upload]]
    ) -> list[tuple[Generation, Upload]]:
        """Return uploads with the readers to store. One that names none keeps those of its document; a new document gets
        the namespace's default. The documents are locked already."""
        row = self._run(_OF_NAMESPACE, namespace=namespace).one_or_none()
        default, is_restricted = (None, 0) if row is None else row
        unnamed = [upload.document_id for _, upload in uploads if upload.fields.readers is None]
        present = self._in_slices(_PRESENT, namespace, unnamed) if is_restricted else ()
        usual = {row.document_id: readers_of(row.readers) for row in present}
        found = []
        for generation, upload in uploads:
            named, fields = upload.fields.readers, upload.fields
            readers = stored_readers(named) if named else usual.get(upload.document_id, readers_of(default))
            found.append((generation, replace(upload, fields=replace(fields, readers=readers))))
        if not is_restricted and any(upload.fields.readers for _, upload in found):
            self._run(_RESTRICT, namespace=namespace)
        return found

    def set_default(self, namespace: Namespace, readers: tuple[str, ...] | None) -> None:
        """Set the readers of new documents that name none. A missing namespace is created."""
        written = None if readers is None else to_json(list(readers))
        self._run(_SET_DEFAULT, namespace=namespace, readers=written, now=now())

    def others(
        self,
        namespace: Namespace,
        readers: tuple[str, ...] | None,
        *,
        document_ids: Sequence[DocumentId] | None = None,
        source_id: str | None = None,
        filters: Filters | None = None,
        after: str = "",
        limit: int,
    ) -> tuple[list[DocumentId], str | None]:
        """Look at ``limit`` documents of a selection by id, and return those that have other readers, with the last id that was
        looked at, None after the last. A document under way counts by its latest upload."""
        condition, values = mysql_condition(filters or Filters(), alias="g", chunk="g")
        clauses = {
            "d.document_id IN :ids": document_ids,
            "g.source_id = :source": source_id,
        }
        parts = [condition, *(clause for clause, value in clauses.items() if value is not None)]
        values |= {"ids": list(document_ids or [DocumentId("")]), "source": source_id, "after": after, "limit": limit}
        statement = _SELECTED.format(where=" AND ".join(parts))
        rows = self._run(statement, namespace=namespace, **values).mappings().all()
        fields = {DocumentId(row["document_id"]): fields_of(row) for row in rows}
        chosen = [
            document_id
            for document_id, described in fields.items()
            if described.readers != readers and (filters is None or unmet(filters, described) is None)
        ]
        return chosen, rows[-1]["document_id"] if len(rows) == limit else None

    def set(self, namespace: Namespace, document_ids: Sequence[DocumentId], readers: tuple[str, ...] | None) -> None:
        """Give every generation of these documents the readers, those under way and retained ones too. Locks the documents in
        key order."""
        self._run(_LOCK, namespace=namespace, ids=sorted(document_ids)).all()
        written = None if readers is None else to_json(list(readers))
        self._run(_SET, namespace=namespace, ids=sorted(document_ids), readers=written)
        if readers is not None:
            self._run(_RESTRICT, namespace=namespace)

    def of(self, generations: Sequence[Generation]) -> dict[Generation, tuple[str, ...] | None]:
        """Return the present readers of these generations; those of a namespace without restricted documents are left out."""
        found: dict[Generation, tuple[str, ...] | None] = {}
        for namespace, group in by_namespace(generations):
            rows = self._in_slices(_PRESENT_ALL, namespace, [generation.document_id for generation in group])
            readers = {(row.document_id, row.generation): readers_of(row.readers) for row in rows}
            keys = {(generation.document_id, generation.number): generation for generation in group}
            found |= {keys[key]: value for key, value in readers.items() if key in keys}
        return found


_WHERE = "tenant_id = :tenant AND namespace = :namespace"
_OF_NAMESPACE = sql(f"SELECT readers, restricted FROM namespaces WHERE {_WHERE}")
_SET_DEFAULT = sql(
    "INSERT INTO namespaces (tenant_id, namespace, created_at, readers) VALUES (:tenant, :namespace, :now, :readers)"
    " ON DUPLICATE KEY UPDATE readers = VALUES(readers)"
)
_RESTRICT = sql(f"UPDATE namespaces SET restricted = 1 WHERE {_WHERE} AND restricted = 0")

_PRESENT = sql(
    "SELECT d.document_id, g.readers FROM documents d"
    f" JOIN generations g ON {same_document('g', 'd')} AND g.generation = ("
    f"SELECT MAX(p.generation) FROM generations p WHERE {same_document('p', 'd')}"
    " AND p.generation > d.deleted_generation AND p.generation < d.latest_generation)"
    " WHERE d.tenant_id = :tenant AND d.namespace = :namespace AND d.document_id IN :ids"
)
_PRESENT_ALL = sql(
    "SELECT g.document_id, g.generation, g.readers FROM namespaces n"
    " JOIN generations g ON g.tenant_id = n.tenant_id AND g.namespace = n.namespace AND g.document_id IN :ids"
    " WHERE n.tenant_id = :tenant AND n.namespace = :namespace AND n.restricted = 1"
)
_SELECTED = (
    f"SELECT d.document_id, {columns(generations, DocumentFields, 'g')} FROM documents d"
    f" JOIN generations g ON {same_document('g', 'd')}"
    " AND g.generation = COALESCE(d.published_generation, d.latest_generation)"
    " WHERE d.tenant_id = :tenant AND d.namespace = :namespace AND d.latest_generation > d.deleted_generation"
    " AND d.document_id > :after AND {where} ORDER BY d.document_id LIMIT :limit"
)
_LOCK = sql(f"SELECT document_id FROM documents WHERE {OF_DOCUMENTS} ORDER BY document_id FOR UPDATE")
_SET = sql(f"UPDATE generations SET readers = :readers WHERE {OF_DOCUMENTS}")
