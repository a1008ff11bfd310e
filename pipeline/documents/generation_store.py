"""Generations of documents: the one that an upload would replace, the history of a document, and replaced generations:
retained for rollback, or retired until no running query can read their rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any

from chordwise.contract.document import GenerationList, GenerationShape
from pipeline.database.mysql_tables import generations
from pipeline.database.rows import (
    TenantStore,
    by_namespace,
    by_namespace_and_number,
    chunking_of,
    chunking_to_json,
    generation_key,
    insert_many,
    now,
    record_of,
)
from pipeline.database.statements import (
    OF_DOCUMENT,
    OF_DOCUMENTS,
    OF_GENERATION,
    TenantsWith,
    columns,
    generation_columns,
    same_document,
    same_generation,
    sql,
)
from pipeline.documents.document_store import Documents, field_columns, fields_of
from pipeline.documents.source_store import Sources
from pipeline.records import Chunking, DocumentFields, DocumentId, Generation, JobId, Namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedState:
    """The state that an upload finds. ``shown``: the published generation, described by the rest; ``recipe``: None if
    its bytes would become other chunks today. ``overtaken``: the upload must not be published, because a later one was
    or the document was deleted."""

    overtaken: bool
    shown: Generation | None = None
    recipe: bytes | None = None
    model: str | None = None
    fields: DocumentFields = field(default_factory=DocumentFields)
    chunk_count: int = 0
    rows: int = 0  # how many chunks there really are


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredUpload:
    """A published upload that can be ingested again. ``pending``: a later upload is on its way. ``edited``: chunks were
    edited, disabled or deleted by hand, which another ingestion does not repeat."""

    generation: Generation
    fields: DocumentFields
    media_type: str
    chunking: Chunking
    pending: bool
    edited: bool


class Generations(TenantStore):
    """One tenant's generations."""

    def published_states(
        self, uploads: Sequence[Generation], *, lock: bool = False
    ) -> dict[Generation, PublishedState]:
        """Return the state that each upload finds. ``lock``: lock the documents in key order."""
        if lock:
            Documents(self._connection, self._tenant_id).lock(uploads)
        states: dict[Generation, PublishedState] = {}
        for namespace, group in by_namespace(uploads):
            ids = [upload.document_id for upload in group]
            rows = {row["document_id"]: row for row in self._run(_PUBLISHED, namespace=namespace, ids=ids).mappings()}
            states |= {upload: _published_state(upload, rows.get(upload.document_id)) for upload in group}
        return states

    def keep_published(self, uploads: Sequence[Generation]) -> None:
        """Keep the published generation instead of these and earlier uploads, and take over their sources."""
        for namespace, number, ids in by_namespace_and_number(uploads):
            values = {"namespace": namespace, "generation": number, "ids": ids}
            if replaced := set(self._run(_OTHER_SOURCES, **values).scalars()):
                self._run(_MOVE_SOURCE, **values)
                Sources(self._connection, self._tenant_id).drop_unused(namespace, replaced)
            self._run(_SETTLE, **values)

    def discard(self, uploads: Sequence[Generation]) -> None:
        """Delete the bytes and fields of these, which have no other rows."""
        sources = Sources(self._connection, self._tenant_id)
        for namespace, number, ids in by_namespace_and_number(uploads):
            source_ids = sources.named_by(namespace, number, ids)
            for table in ("payloads", "generations"):
                self._run(_DELETE[table], namespace=namespace, generation=number, ids=ids)
            sources.drop_unused(namespace, source_ids)

    def outdated(self, shown: Sequence[Generation]) -> list[Generation]:
        """Return earlier generations of these, failed or retained, that are not retired and have no open job."""
        outdated: list[Generation] = []
        for namespace, group in by_namespace(shown):
            numbers = {g.document_id: g.number for g in group}
            rows = self._run(_AT_REST, namespace=namespace, ids=sorted(numbers))
            outdated += [
                self._generation(namespace, document_id, number)
                for document_id, number in rows
                if number < numbers[document_id]
            ]
        return outdated

    def history(self, namespace: Namespace, document_id: DocumentId, *, lock: bool = False) -> GenerationList | None:
        """Return every generation with rows; None without such a document. ``lock``: block accepting and publishing."""
        values = {"namespace": namespace, "document": document_id}
        pointers = self._run(f"{_POINTERS} FOR UPDATE" if lock else _POINTERS, **values).one_or_none()
        if pointers is None or pointers.latest_generation <= pointers.deleted_generation:
            return None
        published = pointers.published_generation
        generations = tuple(
            record_of(
                GenerationShape,
                row,
                state=_state(row, pointers),
                content_hash=row.content_hash.hex(),
            )
            for row in self._run(_HISTORY, **values, deleted=pointers.deleted_generation, now=now())
        )
        etag = f'"{published or 0}-{pointers.latest_generation}"'
        return GenerationList(namespace=namespace, document_id=document_id, etag=etag, data=generations)

    def stored(self, namespace: Namespace, document_ids: Sequence[DocumentId]) -> dict[DocumentId, StoredUpload]:
        """Return the published upload of each document, all locked in key order against accepting and publishing until
        the transaction ends; documents without one are omitted."""
        rows = self._run(_STORED, namespace=namespace, ids=sorted(set(document_ids))).mappings()
        return {
            DocumentId(row["document_id"]): record_of(
                StoredUpload,
                row,
                generation=self._generation(namespace, row["document_id"], row["generation"]),
                fields=fields_of(row),
                chunking=chunking_of(row["chunking"]),
                pending=bool(row["pending"]),
                edited=bool(row["edited"]),
            )
            for row in rows
        }

    def describe(self, generation: Generation, fields: DocumentFields, chunking: Chunking) -> None:
        """Replace the fields and the chunking of an upload that is not ingested yet."""
        values = {**generation_key(generation), **field_columns(fields), "chunking": chunking_to_json(chunking)}
        self._connection.execute(_DESCRIBE, values)

    def copy(self, source: Generation, target: Generation, job_id: JobId) -> int:
        """Accept the upload ``source`` again as ``target``. Return its bytes, measured if none are recorded; 0 if gone."""
        values = {**generation_key(source), "target": target.number, "job": job_id, "now": now()}
        if not self._connection.execute(_COPY_PAYLOAD, values).rowcount:
            return 0
        self._connection.execute(_COPY_FIELDS, values)
        self._run(_MEASURE, **generation_key(target))
        size = self._run(f"SELECT body_bytes FROM generations {_SAME}", **generation_key(target)).scalar_one_or_none()
        return int(size or 0)


_PUBLISHED = sql(
    "SELECT d.document_id, d.published_generation, GREATEST(d.deleted_generation, d.settled_generation) AS overtaken,"
    f" g.recipe, g.embedding_model, g.chunk_count, {columns(generations, DocumentFields, 'g')},"
    f" (SELECT COUNT(*) FROM chunks c WHERE {same_document('c', 'd')}"
    " AND c.generation = d.published_generation) AS chunk_rows FROM documents d"
    f" LEFT JOIN generations g ON {same_document('g', 'd')} AND g.generation = d.published_generation"
    " WHERE d.tenant_id = :tenant AND d.namespace = :namespace AND d.document_id IN :ids"
)

_SETTLE = sql(
    f"UPDATE documents SET settled_generation = GREATEST(settled_generation, :generation) WHERE {OF_DOCUMENTS}"
)

_SHOWN_AND_NEW = (
    f"generations g JOIN documents d ON {same_document('d', 'g')} AND d.published_generation = g.generation"
    f" JOIN generations n ON {same_document('n', 'g')} AND n.generation = :generation"
)
_OF_ANOTHER_SOURCE = (
    "WHERE g.tenant_id = :tenant AND g.namespace = :namespace AND g.document_id IN :ids"
    " AND NOT (g.source_id = n.source_id AND g.source_version <=> n.source_version)"
)
_OTHER_SOURCES = sql(f"SELECT g.source_id FROM {_SHOWN_AND_NEW} {_OF_ANOTHER_SOURCE}")
_MOVE_SOURCE = sql(
    f"UPDATE {_SHOWN_AND_NEW} SET g.source_id = n.source_id, g.source_version = n.source_version {_OF_ANOTHER_SOURCE}"
)

_AT_REST = sql(
    # A job without a row ended long ago.
    "SELECT g.document_id, g.generation FROM generations g LEFT JOIN jobs j ON j.tenant_id = g.tenant_id"
    " AND j.job_id = g.job_id WHERE g.tenant_id = :tenant AND g.namespace = :namespace AND g.document_id IN :ids"
    " AND (j.job_id IS NULL OR j.finished_at IS NOT NULL) AND NOT EXISTS (SELECT 1 FROM retired_generations r"
    f" WHERE {same_generation('r', 'g')})"
)

_POINTERS = (
    "SELECT latest_generation, published_generation, deleted_generation, failed_generation, cancelled_generation"
    f" FROM documents WHERE {OF_DOCUMENT}"
)

_HISTORY = sql(
    "SELECT g.generation, g.title, g.created_at, g.chunk_count AS chunks, g.content_hash, g.body_bytes AS bytes, g.job_id,"
    " k.kept_until, i.state FROM generations g"
    f" LEFT JOIN kept_generations k ON {same_generation('k', 'g')} AND k.kept_until > :now"
    " LEFT JOIN job_items i ON i.tenant_id = g.tenant_id AND i.job_id = g.job_id AND i.namespace = g.namespace"
    " AND i.document_id = g.document_id AND i.generation = g.generation WHERE g.tenant_id = :tenant"
    " AND g.namespace = :namespace AND g.document_id = :document AND g.generation > :deleted"
    " ORDER BY g.generation DESC LIMIT 200"
)

_SAME = f"WHERE {OF_GENERATION}"

_COPY_PAYLOAD = sql(
    "INSERT INTO payloads (tenant_id, namespace, document_id, generation, body)"
    f" SELECT tenant_id, namespace, document_id, :target, body FROM payloads {_SAME}"
)

_UPLOADED = (
    f"tenant_id, namespace, document_id, {columns(generations, DocumentFields)}, source_uri, media_type, chunking,"
    " content_hash, body_bytes, source_id"
)
# Not those of the copied upload, which may be older.
_READERS_NOW = (
    f"(SELECT p.readers FROM documents d JOIN generations p ON {same_document('p', 'd')} AND p.generation ="
    " COALESCE(d.published_generation, :generation) WHERE d.tenant_id = :tenant AND d.namespace = :namespace"
    " AND d.document_id = :document)"
)
_COPY_FIELDS = sql(
    f"INSERT INTO generations ({_UPLOADED}, generation, job_id, created_at)"
    f" SELECT {_UPLOADED.replace('readers', _READERS_NOW)}, :target, :job, :now FROM generations {_SAME}"
)

# An upload that is accepted and neither settled nor ended is on its way. Versions of chunks count edits by hand.
_STORED = sql(
    f"SELECT d.document_id, {columns(generations, DocumentFields, 'g')}, {columns(generations, StoredUpload, 'g')},"
    " d.latest_generation > GREATEST(d.published_generation, d.settled_generation,"
    " d.failed_generation, d.cancelled_generation) AS pending, g.removed_ordinals IS NOT NULL OR EXISTS (SELECT 1"
    f" FROM chunks c WHERE {same_generation('c', 'g')} AND (c.version > 1 OR c.enabled = 0)) AS edited FROM documents d"
    f" JOIN generations g ON {same_document('g', 'd')} AND g.generation = d.published_generation"
    " WHERE d.tenant_id = :tenant AND d.namespace = :namespace AND d.document_id IN :ids"
    " ORDER BY d.document_id FOR UPDATE"
)

_DESCRIBE = sql(
    f"UPDATE generations SET {', '.join(f'{field.name} = :{field.name}' for field in fields(DocumentFields))},"
    f" chunking = :chunking {_SAME}"
)

_MEASURE = f"UPDATE generations SET body_bytes = (SELECT LENGTH(body) FROM payloads {_SAME}) {_SAME} AND body_bytes = 0"


def _published_state(upload: Generation, row: Mapping[Any, Any] | None) -> PublishedState:
    if row is None or upload.number <= row["overtaken"] or upload.number < (row["published_generation"] or 0):
        return PublishedState(overtaken=True)
    published = row["published_generation"]
    if published is None or row["chunk_count"] is None:
        return PublishedState(overtaken=False)
    return PublishedState(
        overtaken=False,
        shown=Generation(scope=upload.scope, document_id=upload.document_id, number=published),
        recipe=bytes(row["recipe"]) if row["recipe"] else None,
        model=row["embedding_model"],
        fields=fields_of(row),
        chunk_count=row["chunk_count"],
        rows=row["chunk_rows"],
    )


_STATES = {"queued": "pending", "running": "pending", "failed": "failed", "cancelled": "cancelled"}


def _state(row: Any, pointers: Any) -> str:
    if row.generation == pointers.published_generation:
        return "shown"
    if row.kept_until is not None:
        return "previous"
    if row.state is None:  # its job is no longer kept
        ends = {pointers.failed_generation: "failed", pointers.cancelled_generation: "cancelled"}
        return ends.get(row.generation, "retired")
    return _STATES.get(row.state, "retired")


class _Tables(TenantStore):
    """One tenant's tables with rows of generations."""

    def _delete(self, generations: Sequence[Generation], *tables: str) -> None:
        for table in tables:  # by exact key ranges, which touch and lock no other generation
            for namespace, number, ids in by_namespace_and_number(generations):
                self._run(_DELETE[table], namespace=namespace, ids=ids, generation=number)


class Retired(_Tables):
    """One tenant's generations that wait to be dropped."""

    def add(self, generations: Sequence[Generation], *, after_s: float = 0.0, replaced: bool = False) -> None:
        """Drop these in ``after_s`` seconds at the earliest. ``replaced``: another was published instead just now."""
        moment = now()
        times = (moment + timedelta(seconds=after_s), moment if replaced else None)
        insert_many(
            self._connection,
            "INSERT INTO retired_generations (tenant_id, namespace, document_id, generation, due_at, replaced_at)"
            " VALUES (%s, %s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE due_at = VALUES(due_at)",
            [(*generation_columns(g), *times) for g in sorted(generations, key=generation_columns)],
        )

    def due(self, *, limit: int) -> list[Generation]:
        """Return the generations to drop now, locked until the transaction ends, skipping rows of other sweepers. Hold
        the lock from before the drop until ``forget``: a generation here is not written anew (`Ledger.claim`)."""
        return [self._generation(*row) for row in self._run(_DUE, now=now(), limit=limit)]

    def forget(self, generations: Sequence[Generation]) -> None:
        """Note that the rows of these are dropped."""
        self._delete(generations, "retired_generations")


tenants_with_retired = TenantsWith("SELECT DISTINCT tenant_id FROM retired_generations WHERE due_at <= :now")


class GenerationRows(_Tables):
    """One tenant's rows to drop."""

    def drop(self, generations: Sequence[Generation], *, is_retryable: bool = True) -> None:
        """Drop the chunks of these hidden generations, and bytes and fields unless retry or rollback need them. Not
        ``is_retryable``: their items cannot be retried, so that only a document's latest upload stays, as its state."""
        for namespace, group in by_namespace(generations):
            self._drop(namespace, group, is_retryable)

    def _drop(self, namespace: Namespace, generations: Sequence[Generation], is_retryable: bool) -> None:
        locked = self._run(_LOCK, namespace=namespace, ids=sorted({g.document_id for g in generations}))
        documents = {row.document_id: row for row in locked}
        published = {document_id: row.published_generation for document_id, row in documents.items()}
        hidden = [g for g in generations if published.get(g.document_id) != g.number]
        self._delete(hidden, "chunks", "parent_chunks")
        deleted = {g for g in hidden if _is_deleted(g, documents.get(g.document_id))}
        self._delete(list(deleted), "kept_generations")
        ended = [g for g in hidden if g in deleted or _is_overtaken(g, documents[g.document_id], is_retryable)]
        retained = self._retained(ended)
        dropped = [g for g in ended if g not in retained]
        sources = Sources(self._connection, self._tenant_id)
        source_ids = [sources.named_by(*key) for key in by_namespace_and_number(dropped)]
        self._delete(dropped, "payloads", "generations")
        sources.drop_unused(namespace, set().union(*source_ids))

    def _retained(self, generations: Sequence[Generation]) -> set[Generation]:
        return {
            self._generation(namespace, document_id, number)
            for namespace, number, ids in by_namespace_and_number(generations)
            for document_id in self._run(_RETAINED, namespace=namespace, ids=ids, generation=number).scalars()
        }


def _is_deleted(generation: Generation, document: Any) -> bool:
    return document is None or generation.number < document.deleted_generation


def _is_overtaken(generation: Generation, document: Any, is_retryable: bool) -> bool:
    first = max(document.published_generation or 0, document.settled_generation + 1)
    return bool(generation.number < (first if is_retryable else document.latest_generation))


_OF_SOME = f"WHERE {OF_DOCUMENTS} AND generation = :generation"
_TABLES = ("chunks", "parent_chunks", "kept_generations", "payloads", "generations", "retired_generations")
_DELETE = {table: sql(f"DELETE FROM {table} {_OF_SOME}") for table in _TABLES}
_RETAINED = sql(f"SELECT document_id FROM kept_generations {_OF_SOME}")
_DUE = sql(
    "SELECT namespace, document_id, generation FROM retired_generations"
    " WHERE tenant_id = :tenant AND due_at <= :now ORDER BY due_at LIMIT :limit FOR UPDATE SKIP LOCKED"
)
_LOCK = sql(
    "SELECT document_id, latest_generation, published_generation, deleted_generation, settled_generation"
    f" FROM documents WHERE {OF_DOCUMENTS} ORDER BY document_id FOR UPDATE"
)


class RetainedGenerations(_Tables):
    """One tenant's retained generations: of each document at most the one published before."""

    def keep(self, replaced: Sequence[Generation], *, for_s: float) -> None:
        """Keep these for ``for_s`` seconds, 0 for not at all, instead of those retained before."""
        for namespace, group in by_namespace(replaced):
            self._run(_FORGET_RETAINED, namespace=namespace, ids=sorted({g.document_id for g in group}))
        if for_s > 0:
            until = now() + timedelta(seconds=for_s)
            insert_many(
                self._connection,
                "INSERT INTO kept_generations (tenant_id, namespace, document_id, generation, kept_until)"
                " VALUES (%s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE kept_until = VALUES(kept_until)",
                [(*generation_columns(g), until) for g in sorted(replaced, key=generation_columns)],
            )

    def expired(self, *, limit: int) -> list[Generation]:
        """Release the retained generations whose time is up, and return them; retire them in the same transaction."""
        expired = [self._generation(*row) for row in self._run(_EXPIRED, now=now(), limit=limit).all()]
        self._delete(expired, "kept_generations")
        return expired


_FORGET_RETAINED = sql(f"DELETE FROM kept_generations WHERE {OF_DOCUMENTS}")

# One index lookup per tenant: there may be as many retained generations as documents.
tenants_with_expired = TenantsWith(
    "SELECT t.tenant_id FROM tenants t WHERE EXISTS (SELECT 1 FROM kept_generations k"
    " WHERE k.tenant_id = t.tenant_id AND k.kept_until <= :now)"
)

_EXPIRED = sql(
    "SELECT namespace, document_id, generation FROM kept_generations"
    " WHERE tenant_id = :tenant AND kept_until <= :now ORDER BY kept_until LIMIT :limit FOR UPDATE SKIP LOCKED"
)
