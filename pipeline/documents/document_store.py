"""Documents and their generations: accepted, published and deleted ones."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from operator import attrgetter, itemgetter
from typing import Any

from pipeline.database.mysql_tables import generations
from pipeline.database.rows import (
    TenantStore,
    by_namespace,
    chunking_of,
    chunking_to_json,
    generation_key,
    insert_many,
    metadata_of,
    now,
    placeholders,
    readers_of,
    record_of,
    to_json,
    to_naive,
)
from pipeline.database.statements import (
    OF_DOCUMENT,
    OF_DOCUMENTS,
    OF_GENERATION,
    columns,
    generation_columns,
    same_document,
    same_generation,
    sql,
)
from pipeline.documents.source_store import Sources
from pipeline.keyword.terms import VERSION
from pipeline.records import Chunking, DocumentFields, DocumentId, Encoding, Generation, JobId, Namespace, Upload

_ROWS_PER_STATEMENT = 1000
# Fields that a recipe leaves out; the bytes are added apart, and of the fields the title.
_NO_INGREDIENTS = {"generation", "fields", "body", "source_id"}

# Raise this whenever the same bytes would become other chunks than before: a parser or the chunker has changed (of terms
# `keyword.terms.VERSION` says so). Documents are then made anew at their next upload instead of being taken for unchanged.
# tests/unit/documents/test_unchanged_uploads.py notices when it was forgotten.
ANALYSIS = 13


def recipe(body: bytes, how: Mapping[str, Any], *, analysis: int = ANALYSIS) -> bytes:
    """Return the SHA-256 of the bytes, of ``how`` they are read and cut (JSON of everything chunks depend on: the given
    title, but no other field nor the model), and of the number above. Equal recipes give equal chunks."""
    ingredients = json.dumps([analysis, how], ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(ingredients.encode() + b"\x00")
    digest.update(body)
    return digest.digest()


def same_fields(one: DocumentFields, other: DocumentFields) -> bool:
    """Return whether no field that searches filter by or show differs. The title is part of the recipe instead."""
    return _plain(one) == _plain(other)


def _plain(described: DocumentFields) -> DocumentFields:
    # As JSON, because to Python True and 1 are one value.
    metadata = json.dumps(dict(described.metadata), sort_keys=True)
    return replace(described, title=None, metadata={"": metadata})


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The input of ingestion for one generation."""

    generation: Generation
    fields: DocumentFields
    body: bytes
    media_type: str
    source_uri: str | None
    chunking: Chunking
    source_id: str = ""

    @property
    def recipe(self) -> bytes:
        """A hash, equal for two sources that become the same chunks. New fields of this class are part of it."""
        how = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in _NO_INGREDIENTS}
        return recipe(self.body, {**how, "chunking": asdict(self.chunking), "title": self.fields.title})


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestedDocument:
    """Results of ingestion. ``title``: found in the text, if any. ``pages``: the first and last page with text."""

    chunk_count: int
    title: str | None
    recipe: bytes
    encoding: Encoding | None = None
    pages: tuple[int, int] | None = None


# The generation that was published, and those whose rows are to be dropped.
DeletedDocument = tuple[Generation | None, Sequence[Generation]]


class Documents(TenantStore):
    """One tenant's documents."""

    def number(
        self, namespace: Namespace, document_ids: Iterable[DocumentId], *, only_new: bool = False
    ) -> dict[DocumentId, Generation]:
        """Give each document its next generation number, creating missing documents and the namespace.

        Rows stay locked until the transaction ends, in sorted order against deadlocks, so concurrent uploads are
        numbered in order. ``only_new``: a document found to exist once locked gets none.
        """
        moment = now()
        self._run(_CREATE_NAMESPACE, namespace=namespace, now=moment)
        ordered = sorted(set(document_ids))
        insert_many(
            self._connection,
            "INSERT INTO documents (tenant_id, namespace, document_id, latest_generation, created_at, updated_at)"
            " VALUES (%s, %s, %s, %s, %s, %s)"
            " ON DUPLICATE KEY UPDATE latest_generation = latest_generation + 1, updated_at = VALUES(updated_at)",
            [(self._tenant_id, namespace, document_id, 1, moment, moment) for document_id in ordered],
        )
        numbered: dict[DocumentId, Generation] = {}
        existing: list[DocumentId] = []
        for row in self._in_slices(_NUMBERS, namespace, ordered):
            document_id = DocumentId(row.document_id)
            if only_new and _exists(row, latest=row.latest_generation - 1):
                existing.append(document_id)
            else:
                numbered[document_id] = self._generation(namespace, document_id, row.latest_generation)
        if existing:  # an unused latest generation would hide the pending one
            self._run(_TAKE_BACK, namespace=namespace, ids=existing)
        return numbered

    def existing(self, namespace: Namespace, document_ids: Iterable[DocumentId]) -> set[DocumentId]:
        """Return which documents are there, shown or under way, without locks. A failed or cancelled upload leaves none."""
        rows = self._in_slices(_NUMBERS, namespace, document_ids)
        return {DocumentId(row.document_id) for row in rows if _exists(row, latest=row.latest_generation)}

    def store(self, job_id: JobId, uploads: Sequence[tuple[Generation, Upload]]) -> None:
        """Write the generations with their sources and bytes, not yet published."""
        moment = now()
        source_ids = Sources(self._connection, self._tenant_id).store(uploads)
        insert_many(
            self._connection,
            "INSERT INTO generations (tenant_id, namespace, document_id, generation, job_id,"
            f" {columns(generations, DocumentFields)}, source_uri, media_type, chunking, content_hash, body_bytes,"
            f" created_at, source_id, source_version, terms_version)"
            f" VALUES ({placeholders(range(14 + len(fields(DocumentFields))))})",
            [
                (
                    *generation_columns(generation),
                    job_id,
                    *field_columns(upload.fields).values(),
                    upload.source_uri,
                    upload.media_type,
                    chunking_to_json(upload.chunking),
                    hashlib.sha256(upload.body).digest(),
                    len(upload.body),
                    moment,
                    source_ids[generation],
                    upload.source_version,
                    VERSION,
                )
                for generation, upload in uploads
            ],
        )
        insert_many(
            self._connection,
            "INSERT INTO payloads (tenant_id, namespace, document_id, generation, body, to_fetch)"
            " VALUES (%s, %s, %s, %s, %s, %s)",
            [(*generation_columns(generation), upload.body, upload.to_fetch) for generation, upload in uploads],
        )

    def sources(self, generations: Sequence[Generation]) -> dict[Generation, Source]:
        """Return the upload of each generation; generations that are gone are omitted."""
        sources: dict[Generation, Source] = {}
        for namespace, group in by_namespace(generations):
            # Pairs would be exact, but MariaDB makes no range of (a, b) IN (…): two lists, and extra rows are dropped.
            wanted = set(group)
            ids, numbers = [g.document_id for g in group], sorted({g.number for g in group})
            for row in self._run(_SOURCES, namespace=namespace, ids=ids, numbers=numbers).mappings():
                generation = self._generation(namespace, row["document_id"], row["generation"])
                if generation in wanted:
                    chunking = chunking_of(row["chunking"])
                    sources[generation] = record_of(
                        Source, row, generation=generation, fields=fields_of(row), chunking=chunking
                    )
        return sources

    def upload(self, namespace: Namespace, document_id: DocumentId, number: int | None = None) -> Source | None:
        """Return the upload of a generation, by default the published or latest one; None without its bytes."""
        row = self._run(_UPLOAD, namespace=namespace, document=document_id, number=number).mappings().one_or_none()
        if row is None:
            return None
        generation = self._generation(namespace, document_id, row["generation"])
        return record_of(
            Source, row, generation=generation, fields=fields_of(row), chunking=chunking_of(row["chunking"])
        )

    def lock(self, generations: Sequence[Generation]) -> dict[Generation, int | None]:
        """Lock these generations' documents in key order and return which generation each shows. Left out: generations
        that must not be shown (document deleted, or a later one is shown or settled)."""
        current: dict[Generation, int | None] = {}
        for namespace, group in by_namespace(generations):
            rows = self._run(_LOCK, namespace=namespace, ids=[g.document_id for g in group])
            pointers = {document_id: (published, overtaken) for document_id, published, overtaken in rows}
            for generation in group:
                published, overtaken = pointers.get(generation.document_id, (None, generation.number))
                if generation.number > overtaken and generation.number >= (published or 0):
                    current[generation] = published
        return current

    def shown(self, generations: Sequence[Generation]) -> set[Generation]:
        """Return those of the generations that are published. Locks nothing."""
        shown: set[Generation] = set()
        for namespace, group in by_namespace(generations):
            rows = self._run(_SHOWN, namespace=namespace, ids=[g.document_id for g in group])
            published = dict(tuple(row) for row in rows)
            shown.update(g for g in group if published.get(g.document_id) == g.number)
        return shown

    def show(self, generations: Mapping[Generation, IngestedDocument], *, model: str) -> None:
        """Move each document's pointer to its generation: two statements for all of the same number."""
        grouped: defaultdict[tuple[Namespace, int], dict[DocumentId, IngestedDocument]] = defaultdict(dict)
        for generation, document in sorted(generations.items(), key=lambda pair: pair[0].document_id):
            grouped[generation.scope.namespace, generation.number][generation.document_id] = document
        for (namespace, number), group in sorted(grouped.items(), key=itemgetter(0)):
            counts, recipes, titles, encodings = (
                [value for document_id, document in group.items() for value in (document_id, column(document))]
                for column in _COLUMNS_SHOWN
            )
            cases, many = " ".join(["WHEN %s THEN %s"] * len(group)), placeholders(group)
            self._connection.exec_driver_sql(
                f"UPDATE generations SET chunk_count = CASE document_id {cases} END, embedding_model = %s,"
                f" recipe = CASE document_id {cases} END, title = COALESCE(title, CASE document_id {cases} END),"
                f" encoding = CASE document_id {cases} END, terms_version = %s"
                f" WHERE tenant_id = %s AND namespace = %s AND document_id IN ({many}) AND generation = %s",
                (*counts, model, *recipes, *titles, *encodings, VERSION, self._tenant_id, namespace, *group, number),
            )
            for document_id, document in group.items():
                if document.pages is not None:
                    first, last = document.pages
                    key = generation_key(self._generation(namespace, document_id, number))
                    self._connection.execute(_PAGES, {**key, "first": first, "last": last})
            self._connection.exec_driver_sql(
                "UPDATE documents SET published_generation = %s, updated_at = %s"
                f" WHERE tenant_id = %s AND namespace = %s AND document_id IN ({many})",
                (number, now(), self._tenant_id, namespace, *group),
            )

    def delete(self, namespace: Namespace, document_ids: Sequence[DocumentId]) -> dict[DocumentId, DeletedDocument]:
        """Hide these documents at once, and all their uploads accepted before. The result omits missing documents."""
        locked = self._run(_LOCK_ALIVE, namespace=namespace, ids=sorted(document_ids))
        published = {
            DocumentId(row.document_id): row.published_generation
            for row in locked
            if row.latest_generation > row.deleted_generation
        }
        if not published:
            return {}
        self._run(_HIDE, namespace=namespace, ids=list(published), now=now())
        generations: defaultdict[DocumentId, list[Generation]] = defaultdict(list)
        for document_id, number in self._run(_GENERATIONS, namespace=namespace, ids=list(published)):
            generations[DocumentId(document_id)].append(self._generation(namespace, document_id, number))
        return {
            document_id: (
                None if number is None else self._generation(namespace, document_id, number),
                generations[document_id],
            )
            for document_id, number in published.items()
        }

    def published(self, namespace: Namespace, document_id: DocumentId) -> Generation | None:
        """Return the published generation, locked until the transaction ends."""
        row = self._run(_LOCK_ONE, namespace=namespace, document=document_id).one_or_none()
        if row is None or row.published_generation is None:
            return None
        return self._generation(namespace, document_id, row.published_generation)


_CREATE_NAMESPACE = sql(
    "INSERT IGNORE INTO namespaces (tenant_id, namespace, created_at) VALUES (:tenant, :namespace, :now)"
)

_COLUMNS_SHOWN: tuple[Callable[[IngestedDocument], Any], ...] = (
    attrgetter("chunk_count"),
    attrgetter("recipe"),
    attrgetter("title"),
    lambda document: None if document.encoding is None else to_json(_without_nulls(asdict(document.encoding))),
)

_NUMBERS = sql(
    "SELECT document_id, latest_generation, published_generation, GREATEST(deleted_generation, failed_generation,"
    f" cancelled_generation) AS ended FROM documents WHERE {OF_DOCUMENTS}"
)

_TAKE_BACK = sql(f"UPDATE documents SET latest_generation = latest_generation - 1 WHERE {OF_DOCUMENTS}")

_SOURCE = (
    f"SELECT g.document_id, {columns(generations, DocumentFields, 'g')}, {columns(generations, Source, 'g')}, p.body"
    " FROM generations g"
    f" JOIN payloads p ON {same_generation('p', 'g')}"
)
_SOURCES = sql(
    f"{_SOURCE} WHERE g.tenant_id = :tenant AND g.namespace = :namespace"
    " AND g.document_id IN :ids AND g.generation IN :numbers"
)
_UPLOAD = sql(
    f"{_SOURCE} JOIN documents d ON {same_document('d', 'g')} WHERE g.tenant_id = :tenant"
    " AND g.namespace = :namespace AND g.document_id = :document AND g.generation > d.deleted_generation"
    " AND g.generation = COALESCE(:number, d.published_generation, d.latest_generation) AND p.to_fetch = 0"
)

_PAGES = sql(f"UPDATE generations SET page_start = :first, page_end = :last WHERE {OF_GENERATION}")

_LOCK = sql(
    "SELECT document_id, published_generation, GREATEST(deleted_generation, settled_generation) FROM documents"
    f" WHERE {OF_DOCUMENTS} ORDER BY document_id FOR UPDATE"
)

_LOCK_ALIVE = sql(
    "SELECT document_id, latest_generation, published_generation, deleted_generation FROM documents"
    f" WHERE {OF_DOCUMENTS} ORDER BY document_id FOR UPDATE"
)

# Right whether assignments are made one after the other or all at once.
_HIDE = sql(
    "UPDATE documents SET deleted_generation = latest_generation + 1, latest_generation = latest_generation + 1,"
    f" published_generation = NULL, updated_at = :now WHERE {OF_DOCUMENTS}"
)

_GENERATIONS = sql(f"SELECT document_id, generation FROM generations WHERE {OF_DOCUMENTS}")

_SHOWN = sql(f"SELECT document_id, published_generation FROM documents WHERE {OF_DOCUMENTS}")

_LOCK_ONE = sql(
    "SELECT latest_generation, published_generation, deleted_generation, settled_generation FROM documents"
    f" WHERE {OF_DOCUMENT} FOR UPDATE"
)


def _exists(row: Any, *, latest: int) -> bool:
    """Return whether a document was searchable or on its way when ``latest`` was its latest upload."""
    return row.published_generation is not None or latest > row.ended


def _without_nulls(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def encoding_of(value: str | None) -> Encoding | None:
    """Return the encoding in a column of ``generations``."""
    return None if value is None else Encoding(**json.loads(value))


def field_columns(described: DocumentFields) -> dict[str, Any]:
    """Return the columns of ``generations`` that hold a document's fields, in their order, with the values to write."""
    values = {field.name: getattr(described, field.name) for field in fields(described)}
    converted = {
        "tags": to_json(list(described.tags)),
        "metadata": to_json(dict(described.metadata)),
        "readers": None if described.readers is None else to_json(list(described.readers)),
    }
    return values | converted | {"published_at": to_naive(described.published_at)}


def fields_of(row: Mapping[Any, Any]) -> DocumentFields:
    """Return the fields in a row of ``generations``."""
    return record_of(
        DocumentFields,
        row,
        tags=tuple(json.loads(row["tags"])),
        metadata=metadata_of(row["metadata"]),
        readers=readers_of(row["readers"]),
    )
