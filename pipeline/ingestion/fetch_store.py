"""Store payloads that are still to be fetched, and their bytes afterwards."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import bindparam, text

from pipeline.database.rows import TenantStore, generation_key, now
from pipeline.jobs.ledger_store import ItemClaim
from pipeline.jobs.states import Move, becomes, may
from pipeline.records import Generation


@dataclass(frozen=True, slots=True, kw_only=True)
class BytesLocation:
    """The address of a generation's bytes. ``media_type``: the type to parse them as, or the mark for an unknown one."""

    uri: str
    media_type: str


class FetchedPayloads(TenantStore):
    """One tenant's payloads that are still to be fetched."""

    def locations(self, generations: Sequence[Generation]) -> dict[Generation, BytesLocation]:
        """Return the location of each of these generations that has no bytes yet."""
        locations: dict[Generation, BytesLocation] = {}
        wanted = set(generations)
        for namespace in sorted({generation.scope.namespace for generation in wanted}):
            ids = [generation.document_id for generation in wanted if generation.scope.namespace == namespace]
            rows = self._run(_LOCATIONS, namespace=namespace, ids=ids)
            for document_id, number, uri, media_type in rows:
                generation = self._generation(namespace, document_id, number)
                if generation in wanted:
                    locations[generation] = BytesLocation(uri=uri, media_type=media_type)
        return locations

    def store(self, generation: Generation, body: bytes, *, media_type: str) -> None:
        """Store the bytes and their type, so that they are never fetched again."""
        key = generation_key(generation)
        self._run(_STORE_BODY, **key, body=body)
        self._run(_STORE_TYPE, **key, media_type=media_type, hash=hashlib.sha256(body).digest())
        self._run(_SOURCE_TYPE, **key, media_type=media_type.partition(";")[0])

    def queue(self, sizes: Mapping[ItemClaim, int]) -> None:
        """Queue items whose bytes were stored (by size), without counting an attempt. Call `Ledger.still_held` first."""
        for claim, size in sizes.items():
            self._run(_QUEUE, job=claim.job_id, ordinal=claim.ordinal, size=size, now=now())


_LOCATIONS = text(
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
