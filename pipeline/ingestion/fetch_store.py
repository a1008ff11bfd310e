"""Store payloads that are still to be fetched, and their bytes afterwards."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import bindparam, text

from pipeline.database.rows import TenantStore, now
from pipeline.jobs.claims import ItemClaim, becomes, may
from pipeline.jobs.states import Move
from pipeline.records import Generation


@dataclass(frozen=True, slots=True, kw_only=True)
class BytesLocation:
    """The address of a generation's bytes. ``media_type``: the type to parse them as, or the mark for an unknown one."""

    uri: str
    media_type: str


class FetchedPayloads(TenantStore):
    """One tenant's payloads that are still to be fetched."""

    def places(self, generations: Sequence[Generation]) -> dict[Generation, BytesLocation]:
        """Return the location of each of these generations that has no bytes yet."""
        found: dict[Generation, BytesLocation] = {}
        wanted = set(generations)
        for namespace in sorted({generation.scope.namespace for generation in wanted}):
            rows = self._run(
                _PLACES,
                namespace=namespace,
                ids=[each.document_id for each in wanted if each.scope.namespace == namespace],
            )
            for document_id, number, uri, media_type in rows:
                generation = self._generation(namespace, document_id, number)
                if generation in wanted:
                    found[generation] = BytesLocation(uri=uri, media_type=media_type)
        return found

    def store(self, generation: Generation, body: bytes, *, media_type: str) -> None:
        """Store the bytes and their type, so that they are never fetched again."""
        values = {
            "tenant": self._tenant_id,
            "namespace": generation.scope.namespace,
            "document": generation.document_id,
            "generation": generation.number,
        }
        self._connection.execute(_STORE_BODY, {**values, "body": body})
        digest = hashlib.sha256(body).digest()
        self._connection.execute(_STORE_TYPE, {**values, "media_type": media_type, "hash": digest})
        self._connection.execute(_SOURCE_TYPE, {**values, "media_type": media_type.partition(";")[0]})

    def queue(self, sizes: Mapping[ItemClaim, int]) -> None:
        """Queue items whose bytes were stored (by size), without counting an attempt. Call `Ledger.still_held` first."""
        for claim, size in sizes.items():
            values = {"tenant": self._tenant_id, "job": claim.job_id, "ordinal": claim.ordinal}
            self._connection.execute(_QUEUE, {**values, "size": size, "now": now()})


_PLACES = text(
    "SELECT g.document_id, g.generation, g.source_uri, g.media_type FROM payloads p JOIN generations g"
    " ON g.tenant_id = p.tenant_id AND g.namespace = p.namespace AND g.document_id = p.document_id"
    " AND g.generation = p.generation"
    " WHERE p.tenant_id = :tenant AND p.namespace = :namespace AND p.document_id IN :ids AND p.to_fetch = 1"
).bindparams(bindparam("ids", expanding=True))

_WHERE = (
    " WHERE tenant_id = :tenant AND namespace = :namespace AND document_id = :document AND generation = :generation"
)

_STORE_BODY = text(f"UPDATE payloads SET body = :body, to_fetch = 0{_WHERE}")

_STORE_TYPE = text(f"UPDATE generations SET media_type = :media_type, content_hash = :hash{_WHERE}")

_SOURCE_TYPE = text(
    "UPDATE sources SET media_type = :media_type WHERE tenant_id = :tenant AND namespace = :namespace"
    " AND source_id = (SELECT source_id FROM generations WHERE tenant_id = :tenant AND namespace = :namespace"
    " AND document_id = :document AND generation = :generation)"
)

_QUEUE = text(
    f"UPDATE job_items SET {becomes(Move.PUT_BACK)}, lease_until = NULL, next_attempt_at = :now, body_bytes = :size,"
    " attempts = attempts - 1, error_code = NULL, error_detail = NULL, updated_at = :now"
    f" WHERE tenant_id = :tenant AND job_id = :job AND ordinal = :ordinal AND {may(Move.PUT_BACK)}"
)
