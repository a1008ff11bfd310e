"""Store payloads that are still to be fetched, and their bytes afterwards."""

import hashlib
from collections.abc import Mapping, Sequence

from pipeline.database.rows import TenantStore, by_namespace, generation_key, now
from pipeline.database.statements import OF_GENERATION, same_generation, sql
from pipeline.jobs.ledger_store import ItemClaim
from pipeline.jobs.states import Move, becomes, may
from pipeline.records import Generation

Location = tuple[str, str]  # the address of bytes, and the type to parse them as or the mark for an unknown one


class FetchedPayloads(TenantStore):
    """One tenant's payloads that are still to be fetched."""

    def locations(self, generations: Sequence[Generation]) -> dict[Generation, Location]:
        """Return the location of each of these generations that has no bytes yet."""
        locations: dict[Generation, Location] = {}
        for namespace, group in by_namespace(generations):
            ids = [generation.document_id for generation in group]
            for document_id, number, uri, media_type in self._run(_LOCATIONS, namespace=namespace, ids=ids):
                locations[self._generation(namespace, document_id, number)] = uri, media_type
        return {generation: locations[generation] for generation in generations if generation in locations}

    def store(self, generation: Generation, body: bytes, *, media_type: str) -> None:
        """Store the bytes and their type, so that they are never fetched again."""
        key = generation_key(generation)
        self._run(_STORE_BODY, **key, body=body)
        self._run(_DESCRIBE, **key, media_type=media_type, hash=hashlib.sha256(body).digest(), size=len(body))
        self._run(_SOURCE_TYPE, **key, media_type=media_type.partition(";")[0])

    def queue(self, sizes: Mapping[ItemClaim, int]) -> None:
        """Queue items whose bytes were stored (by size), without counting an attempt. Call `Ledger.still_held` first."""
        for claim, size in sizes.items():
            self._run(_QUEUE, job=claim.job_id, ordinal=claim.ordinal, size=size, now=now())


_LOCATIONS = sql(
    "SELECT g.document_id, g.generation, g.source_uri, g.media_type FROM payloads p JOIN generations g"
    f" ON {same_generation('g', 'p')}"
    " WHERE p.tenant_id = :tenant AND p.namespace = :namespace AND p.document_id IN :ids AND p.to_fetch = 1"
)

_STORE_BODY = f"UPDATE payloads SET body = :body, to_fetch = 0 WHERE {OF_GENERATION}"

_DESCRIBE = (
    f"UPDATE generations SET media_type = :media_type, content_hash = :hash, body_bytes = :size WHERE {OF_GENERATION}"
)

_SOURCE_TYPE = (
    "UPDATE sources SET media_type = :media_type WHERE tenant_id = :tenant AND namespace = :namespace"
    f" AND source_id = (SELECT source_id FROM generations WHERE {OF_GENERATION})"
)

_QUEUE = (
    f"UPDATE job_items SET {becomes(Move.PUT_BACK)}, lease_until = NULL, next_attempt_at = :now, body_bytes = :size,"
    " attempts = attempts - 1, error_code = NULL, error_detail = NULL, updated_at = :now"
    f" WHERE tenant_id = :tenant AND job_id = :job AND ordinal = :ordinal AND {may(Move.PUT_BACK)}"
)
