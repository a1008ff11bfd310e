"""Namespaces: a tenant's knowledge bases, created by the first write that names them; and the log of their publications,
written under the namespace's lock and so without gaps, which indexes outside MySQL follow."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from chordwise.contract.namespace import Namespace as NamespaceView
from pipeline.database.rows import TenantStore, as_utc, now, readers_of, record_of, to_json
from pipeline.database.statements import TenantsWith, same_document, sql
from pipeline.filters.readers import PUBLIC, Principals, readers_filter
from pipeline.filters.sql_filters import mysql_condition
from pipeline.records import DocumentId, Filters, Namespace

KEPT_FOR = timedelta(days=7)


class Publications(TenantStore):
    """One tenant's part of the log."""

    def add(self, namespace: Namespace, document_ids: Sequence[DocumentId]) -> None:
        """Record that these documents changed with the namespace's present revision; also for none, against gaps."""
        ids = to_json(list(dict.fromkeys(document_ids)) or [""])
        self._run(_ADD, namespace=namespace, ids=ids)

    def since(
        self, namespace: Namespace, revision: int, revised_at: datetime | None
    ) -> tuple[tuple[DocumentId, ...], bool]:
        """Return the documents that changed after ``revision``, made at ``revised_at`` (None: unchanged so far), and whether
        these are all: not if the log lacks the revision or has another under its number: pruned, or MySQL restored."""
        rows = self._run(_SINCE, namespace=namespace, revision=revision).all()
        later = {row.revision for row in rows if row.revision > revision}
        is_known = revised_at is None or any((row.revision, row.revised_at) == (revision, revised_at) for row in rows)
        ids = (DocumentId(row.document_id) for row in rows if row.document_id and row.revision > revision)
        return tuple(dict.fromkeys(ids)), is_known and bool(later) and len(later) == max(later) - revision

    def documents_since(self, age: timedelta) -> dict[Namespace, list[DocumentId]]:
        """Return the documents that changed within the last ``age``, by namespace."""
        found: dict[Namespace, list[DocumentId]] = {}
        for namespace, document_id in self._run(_LATE, since=now() - age):
            found.setdefault(Namespace(namespace), []).append(DocumentId(document_id))
        return found

    def prune(self, *, limit: int) -> int:
        """Delete up to ``limit`` rows older than `KEPT_FOR`, but not of a present revision; return how many."""
        return self._run(_PRUNE, before=now() - KEPT_FOR, limit=limit).rowcount


# Of which rows are older than `KEPT_FOR`.
tenants_with_old_publications = TenantsWith(
    "SELECT tenant_id FROM publications GROUP BY tenant_id"
    f" HAVING MIN(revised_at) < :now - INTERVAL {KEPT_FOR.days} DAY"
)
# Of which rows are younger than ``:seconds``.
tenants_with_late_publications = TenantsWith(
    "SELECT DISTINCT tenant_id FROM publications WHERE revised_at >= :now - INTERVAL :seconds SECOND"
)


_ADD = sql(
    "INSERT INTO publications (tenant_id, namespace, revision, document_id, revised_at)"
    " SELECT n.tenant_id, n.namespace, n.revision, changed.document_id, n.revised_at FROM namespaces n"
    " JOIN JSON_TABLE(:ids, '$[*]' COLUMNS ("
    "document_id VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$')) AS changed"
    " WHERE n.tenant_id = :tenant AND n.namespace = :namespace"
)
_SINCE = sql(
    "SELECT revision, document_id, revised_at FROM publications"
    " WHERE tenant_id = :tenant AND namespace = :namespace AND revision >= :revision"
)
_LATE = sql(
    "SELECT DISTINCT namespace, document_id FROM publications"
    " WHERE tenant_id = :tenant AND revised_at >= :since AND document_id <> ''"
)
_PRUNE = sql(
    "DELETE FROM publications WHERE tenant_id = :tenant AND revised_at < :before AND NOT EXISTS (SELECT 1 FROM namespaces n"
    " WHERE n.tenant_id = publications.tenant_id AND n.namespace = publications.namespace"
    " AND n.revision = publications.revision) LIMIT :limit"
)


# The one of which the largest namespace is.
tenants_with_most_chunks = TenantsWith(
    "SELECT tenant_id FROM namespaces WHERE chunk_count > 0 ORDER BY chunk_count DESC LIMIT 1"
)

EXAMPLE_TABLES = ("qa_examples", "record_examples", "query_examples", "greeting_examples")


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A revision of a namespace. ``stamp`` changes with the visible content, never repeats. ``revised_at``: when.
    ``is_restricted``: whether a document may have other readers than the public."""

    stamp: str
    revised_at: datetime | None = None
    is_restricted: bool = False


class Namespaces(TenantStore):
    """One tenant's namespaces."""

    def existing(self, names: Sequence[Namespace]) -> set[Namespace]:
        """Return those of these namespaces that exist."""
        statement = sql("SELECT namespace FROM namespaces WHERE tenant_id = :tenant AND namespace IN :names")
        rows = self._run(statement, names=list(names)).scalars()
        return {Namespace(name) for name in rows}

    def revisions(self, names: Sequence[Namespace]) -> dict[Namespace, Revision]:
        """Return the present revision of each namespace; missing ones are omitted."""
        rows = self._connection.exec_driver_sql(_REVISIONS, {"tenant": self._tenant_id, "names": list(names) or [""]})
        return {
            Namespace(name): Revision(stamp=stamp, revised_at=as_utc(revised_at), is_restricted=bool(restricted))
            for name, stamp, revised_at, restricted in rows
        }

    def largest(self) -> Namespace:
        """Return the namespace with the most chunks, of a tenant that has some."""
        statement = "SELECT namespace FROM namespaces WHERE tenant_id = :tenant ORDER BY chunk_count DESC LIMIT 1"
        return Namespace(self._run(statement).scalar_one())

    def revise(
        self,
        namespace: Namespace,
        document_ids: Sequence[DocumentId] = (),
        *,
        added: Sequence[int] = (),
        removed: Sequence[int] = (),
    ) -> None:
        """Record a change of the visible content: the documents, and the terms of each chunk added and removed. Run it in
        the transaction that makes the change."""
        growth = {"chunks": len(added) - len(removed), "terms": sum(added) - sum(removed)}
        self._run(_REVISE, namespace=namespace, **growth, now=now())
        Publications(self._connection, self._tenant_id).add(namespace, document_ids)

    def correct_size(self, namespace: Namespace, *, chunks: int, terms: int) -> None:
        """Add to the numbers of chunks and terms of a namespace that was revised in this transaction."""
        self._run(_CORRECT_SIZE, namespace=namespace, chunks=chunks, terms=terms)

    def revise_all(self) -> None:
        """Record a change of every namespace that is a change of no document."""
        moment = now()
        self._run(_REVISE_ALL, now=moment)
        self._run(_ADD_TO_ALL, now=moment)

    def living_documents(self, namespace: Namespace, *, limit: int) -> list[str]:
        """Return some documents of a namespace that are published or under way."""
        return list(self._run(_LIVING, namespace=namespace, limit=limit).scalars())

    def close(self, namespace: Namespace) -> bool:
        """Delete an empty namespace; False if it holds a document. Uploads that name it wait for this transaction, as
        each touches its row first. Retired rows may be dropped at once."""
        where = "tenant_id = :tenant AND namespace = :namespace"
        self._run(f"SELECT namespace FROM namespaces WHERE {where} FOR UPDATE", namespace=namespace).all()
        if self.living_documents(namespace, limit=1):
            return False
        for table in _TABLES:
            self._run(f"DELETE FROM {table} WHERE {where}", namespace=namespace)
        retire = f"UPDATE retired_generations SET due_at = :now WHERE {where} AND due_at > :now"
        self._run(retire, namespace=namespace, now=now())
        return True

    def views(
        self,
        *,
        reads_as: Principals = None,
        after: str | None = None,
        limit: int = 1000,
        examples: bool = False,
        contains: str | None = None,
        sizes: bool = False,
    ) -> list[NamespaceView]:
        """Return namespaces after the given one, in order of name.

        ``examples``: only those that hold examples. ``contains``: only those with this in their name, in any case.
        ``sizes``: with the bytes of their published uploads, which costs a row of each document. ``reads_as``: count only
        documents that these principals may read."""
        where = (_HOLDS_EXAMPLES if examples else "") + (_NAMED if contains else "")
        readable, values = mysql_condition(Filters(readers=readers_filter(reads_as)), alias="g", chunk="g")
        of_readable = _OF_DOCUMENTS.format(readable=readable)
        statement = _VIEWS.format(
            where=where,
            documents=_DOCUMENTS if reads_as is None else f"(SELECT COUNT(*) {of_readable})",
            chunks="n.chunk_count" if reads_as is None else f"(SELECT COALESCE(SUM(g.chunk_count), 0) {of_readable})",
            revised_at="n.revised_at" if reads_as is None else f"(SELECT MAX(d.updated_at) {of_readable})",
            bytes=f"(SELECT COALESCE(SUM(g.body_bytes), 0) {of_readable})" if sizes else "NULL",
        )
        rows = self._run(statement, after=after or "", limit=limit, contains=contains, **values)
        return [
            record_of(
                NamespaceView,
                row,
                chunks=int(row.chunks),
                bytes=None if row.bytes is None else int(row.bytes),
                readers=None if reads_as is not None else readers_of(row.readers) or (PUBLIC,),
            )
            for row in rows
        ]


# Ids of examples begin with their category, so each of these reads a few rows of the primary key: '.' follows '-'.
_HOLDS_EXAMPLES = " AND ({})".format(
    " OR ".join(
        f"EXISTS (SELECT 1 FROM documents d JOIN generations g ON {same_document('g', 'd')}"
        " AND g.generation = d.published_generation WHERE d.tenant_id = n.tenant_id AND d.namespace = n.namespace"
        f" AND d.document_id >= '{category}-' AND d.document_id < '{category}.' AND g.type = '{category}'"
        " AND JSON_EXTRACT(g.metadata, '$.user_input') IS NOT NULL)"
        for category in (name.removesuffix("_examples") for name in EXAMPLE_TABLES)
    )
)

_NAMED = " AND LOCATE(LOWER(:contains), LOWER(n.namespace)) > 0"
_DOCUMENTS = (
    "(SELECT COUNT(*) FROM documents d WHERE d.tenant_id = n.tenant_id AND d.namespace = n.namespace"
    " AND d.published_generation IS NOT NULL)"
)
_OF_DOCUMENTS = (
    f"FROM documents d JOIN generations g ON {same_document('g', 'd')} AND g.generation = d.published_generation"
    " WHERE d.tenant_id = n.tenant_id AND d.namespace = n.namespace AND {readable}"
)
_VIEWS = (
    "SELECT n.namespace, {chunks} AS chunks, n.created_at, n.readers, {revised_at} AS revised_at, {bytes} AS bytes,"
    " {documents} AS documents FROM namespaces n"
    " WHERE n.tenant_id = :tenant AND n.namespace > :after{where} ORDER BY n.namespace LIMIT :limit"
)

# The tables whose rows are deleted with a namespace; its own is last.
_TABLES = (
    *("import_parts", "entity_states", "feedback", "attachments", "vector_stores"),
    *("publications", "followed_sources", "sources", "namespaces"),
)

# A revision alone would come again in a namespace that was deleted and made anew, or in a database that was restored.
STAMP = "CONCAT_WS('@', n.revision, n.created_at, n.revised_at) AS stamp"
# Every query reads these, so they are written for PyMySQL itself, which puts the list into the statement.
_REVISIONS = (
    f"SELECT n.namespace, {STAMP}, n.revised_at, n.restricted FROM namespaces n"
    " WHERE n.tenant_id = %(tenant)s AND n.namespace IN %(names)s"
)

_LIVING = (
    "SELECT document_id FROM documents WHERE tenant_id = :tenant AND namespace = :namespace"
    " AND latest_generation > deleted_generation ORDER BY document_id LIMIT :limit"
)

_SIZE = "chunk_count = chunk_count + :chunks, term_count = term_count + :terms"
_CORRECT_SIZE = f"UPDATE namespaces SET {_SIZE} WHERE tenant_id = :tenant AND namespace = :namespace"
_REVISE = sql(
    f"UPDATE namespaces SET {_SIZE},"
    " revision = revision + 1, revised_at = :now WHERE tenant_id = :tenant AND namespace = :namespace"
)

_REVISE_ALL = "UPDATE namespaces SET revision = revision + 1, revised_at = :now WHERE tenant_id = :tenant"
_ADD_TO_ALL = (
    "INSERT INTO publications (tenant_id, namespace, revision, document_id, revised_at)"
    " SELECT tenant_id, namespace, revision, '', revised_at FROM namespaces"
    " WHERE tenant_id = :tenant AND revised_at = :now"
)
