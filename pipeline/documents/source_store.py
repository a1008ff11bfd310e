"""Sources as rows: written with the uploads that name them, dropped with the last generation that does."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter

from pipeline.database.rows import TenantStore, insert_many, now, slices
from pipeline.database.statements import sql
from pipeline.document_sources import SourceKind, derived_source_id, original_type
from pipeline.records import OCTETS, Generation, Namespace, Upload

_ROWS_PER_STATEMENT = 1000


class Sources(TenantStore):
    """One tenant's sources."""

    def store(self, uploads: Sequence[tuple[Generation, Upload]]) -> dict[Generation, str]:
        """Write the sources of these uploads where missing or changed; return their ids. In sorted order against
        deadlocks; rows stay share-locked, so `drop_unused` waits."""
        ids: dict[Generation, str] = {}
        rows: dict[tuple[Namespace, str], tuple[SourceKind | None, str | None, str]] = {}
        for generation, upload in uploads:
            source, namespace = upload.source, generation.scope.namespace
            uri = source.uri if upload.source_uri is None else upload.source_uri
            source_id = source.source_id or derived_source_id(
                self._tenant_id, namespace, uri=uri, document_id=upload.document_id
            )
            ids[generation] = source_id
            media_type = source.media_type or original_type(upload.media_type)
            rows[namespace, source_id] = (source.kind, uri, media_type)
        moment = now()
        written = insert_many(
            self._connection,
            "INSERT IGNORE INTO sources (tenant_id, namespace, source_id, kind, uri, media_type, created_at)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s)",
            [
                (self._tenant_id, namespace, source_id, kind or SourceKind.TEXT, uri, media_type, moment)
                for (namespace, source_id), (kind, uri, media_type) in sorted(rows.items(), key=lambda row: row[0])
            ],
        )
        if written < len(rows):
            self._correct(rows)
        return ids

    def _correct(self, rows: dict[tuple[Namespace, str], tuple[SourceKind | None, str | None, str]]) -> None:
        """Update existing sources to the description of their latest upload."""
        for namespace, group in groupby(sorted(rows), key=itemgetter(0)):
            for row in list(self._in_slices(_DESCRIBED, namespace, (source_id for _, source_id in group))):
                kind, uri, media_type = rows[namespace, row.source_id]
                media_type = row.media_type if media_type == OCTETS else media_type  # to be detected once more
                if kind is not None and (row.kind, row.uri, row.media_type) != (kind, uri, media_type):
                    new = {"kind": kind, "uri": uri, "media_type": media_type}
                    self._run(_CORRECT, namespace=namespace, id=row.source_id, **new)

    def named_by(self, namespace: Namespace, number: int, document_ids: Sequence[str]) -> set[str]:
        """Return the ids of the sources of these documents' generations of one number."""
        return set(self._run(_NAMED_BY, namespace=namespace, number=number, ids=list(document_ids)).scalars())

    def drop_unused(self, namespace: Namespace, source_ids: Iterable[str]) -> None:
        """Delete sources that no generation names. Waits for uncommitted uploads, seen under READ COMMITTED."""
        for ids in slices(sorted(source_ids), _ROWS_PER_STATEMENT):
            self._run(_LOCK, namespace=namespace, ids=list(ids)).all()
            used = set(self._run(_USED, namespace=namespace, ids=list(ids)).scalars())
            if unused := [source_id for source_id in ids if source_id not in used]:
                self._run(_DROP, namespace=namespace, ids=unused)


_SOME = " WHERE tenant_id = :tenant AND namespace = :namespace AND source_id IN :ids"
_DESCRIBED = sql(f"SELECT source_id, kind, uri, media_type FROM sources{_SOME}")
_LOCK = sql(f"SELECT source_id FROM sources{_SOME} ORDER BY source_id FOR UPDATE")
_USED = sql(
    f"SELECT source_id FROM generations{_SOME} UNION SELECT source_id FROM followed_sources{_SOME}"  # UNION: each once
)
_DROP = sql(f"DELETE FROM sources{_SOME}")
_CORRECT = sql(
    "UPDATE sources SET kind = :kind, uri = :uri, media_type = :media_type"
    " WHERE tenant_id = :tenant AND namespace = :namespace AND source_id = :id"
)
_NAMED_BY = sql(
    "SELECT DISTINCT source_id FROM generations WHERE tenant_id = :tenant AND namespace = :namespace"
    " AND generation = :number AND document_id IN :ids"
)
