"""Documents of one namespace with the same bytes, derived from their hashes; nothing is stored for it."""

import hashlib
from collections.abc import Collection, Sequence

from pipeline.database.rows import TenantStore
from pipeline.database.statements import same_document, sql
from pipeline.filters.readers import Principals, readers_filter
from pipeline.filters.sql_filters import mysql_condition
from pipeline.records import DocumentId, Filters, Namespace
from pipeline.tenants.quota_store import ALIVE

_UNKNOWN = hashlib.sha256(b"").digest()  # of a document whose bytes are not fetched yet


def _described(g: str, d: str) -> str:
    """Return the condition of the generation that describes a document: the published one, or else its latest upload."""
    return f"{same_document(g, d)} AND {g}.generation = COALESCE({d}.published_generation, {d}.latest_generation)"


def _exists(d: str) -> str:
    return f"{d}.latest_generation > {d}.deleted_generation AND {ALIVE.format(d=f'{d}.')}"


def is_duplicate(row: str) -> str:
    """Return the condition that the document of a row with this alias has the same bytes as an older one."""
    return (
        f"EXISTS (SELECT 1 FROM documents a JOIN generations ag ON {_described('ag', 'a')}"
        " JOIN generations og ON og.tenant_id = ag.tenant_id AND og.namespace = ag.namespace"
        " AND og.content_hash = ag.content_hash AND og.document_id <> ag.document_id"
        f" JOIN documents o ON {_described('og', 'o')} WHERE {same_document('a', row)}"
        f" AND {_exists('a')} AND {_exists('o')} AND ag.content_hash <> UNHEX('{_UNKNOWN.hex()}')"
        " AND (o.created_at < a.created_at OR (o.created_at = a.created_at AND o.document_id < a.document_id)))"
    )


Content = tuple[bytes, str | None]  # the SHA-256 of a document's bytes, and their source


class Duplicates(TenantStore):
    """One tenant's documents with the same bytes."""

    def originals(self, namespace: str, hashes: Collection[bytes], *, reads_as: Principals) -> dict[bytes, DocumentId]:
        """Return the oldest document with the bytes of each hash that the principals may read; among equals the first by id."""
        known = sorted(set(hashes) - {_UNKNOWN})
        readable, values = mysql_condition(Filters(readers=readers_filter(reads_as)), alias="g", chunk="g")
        statement = _ORIGINALS.format(readable=readable)
        rows = self._run(statement, namespace=namespace, hashes=known, **values) if known else ()
        return {row.content_hash: DocumentId(row.document_id) for row in rows}

    def contents(self, namespace: Namespace, document_ids: Collection[DocumentId]) -> dict[DocumentId, Content]:
        """Return what these documents hold: the latest upload if it is on its way, else what searches see."""
        return {
            DocumentId(row.document_id): (row.content_hash, row.source_uri)
            for row in self._in_slices(_CONTENTS, namespace, document_ids)
        }

    def of(self, namespace: Namespace, document_ids: Sequence[DocumentId]) -> dict[DocumentId, DocumentId]:
        """Return the original of each of these documents that is a duplicate."""
        if not document_ids:
            return {}
        rows = self._run(_HASHES, namespace=namespace, ids=list(document_ids))
        hashes = {DocumentId(row.document_id): row.content_hash for row in rows}
        originals = self.originals(namespace, set(hashes.values()), reads_as=None)
        duplicates = {
            document_id: duplicate_of(document_id, originals.get(digest)) for document_id, digest in hashes.items()
        }
        return {document_id: original for document_id, original in duplicates.items() if original is not None}


def duplicate_of(document_id: DocumentId, original: DocumentId | None) -> DocumentId | None:
    """Return the original of a document, None for the original itself."""
    return None if original == document_id else original


_ORIGINALS = (
    "SELECT content_hash, document_id FROM (SELECT g.content_hash, d.document_id,"
    " ROW_NUMBER() OVER (PARTITION BY g.content_hash ORDER BY d.created_at, d.document_id) AS age_rank"
    f" FROM generations g JOIN documents d ON {_described('g', 'd')}"
    " WHERE g.tenant_id = :tenant AND g.namespace = :namespace AND g.content_hash IN :hashes"
    f" AND {_exists('d')} AND {{readable}}) ranked WHERE age_rank = 1"
)

_HASHES = sql(
    f"SELECT d.document_id, g.content_hash FROM documents d JOIN generations g ON {_described('g', 'd')}"
    f" WHERE d.tenant_id = :tenant AND d.namespace = :namespace AND d.document_id IN :ids AND {_exists('d')}"
)

_CONTENTS = sql(
    "SELECT d.document_id, g.content_hash, g.source_uri FROM documents d"
    f" JOIN generations g ON {same_document('g', 'd')} AND g.generation = IF(d.latest_generation >"
    " GREATEST(d.deleted_generation, d.failed_generation, d.cancelled_generation, d.settled_generation),"
    " d.latest_generation, d.published_generation) WHERE d.tenant_id = :tenant AND d.namespace = :namespace"
    " AND d.document_id IN :ids"
)
