"""Payloads that are yet to be fetched, and what becomes of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import bindparam, text

from pipeline.database.rows import TenantStore, now
from pipeline.jobs.claims import ItemClaim, becomes, may
from pipeline.jobs.states import Move
from pipeline.records import Generation


@dataclass(frozen=True, slots=True, kw_only=True)
class BytesLocation:
    """Where a generation's bytes are. ``media_type``: what to read them as, or what stands for not knowing."""

    uri: str
    media_type: str


class FetchedPayloads(TenantStore):
    """One tenant's payloads, as whoever fetches them sees them."""

    def places(self, generations: Sequence[Generation]) -> dict[Generation, BytesLocation]:
        """Where those of the generations are that have no bytes yet."""
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
        """Keep the bytes, so that they are never fetched again, and what they are."""
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
        """Queue items whose bytes were stored (by size), not counting an attempt. Call `Ledger.still_held` first."""
        for claim, size in sizes.items():
            self._connection.execute(_QUEUE, {**self._at([claim]), "size": size, "now": now()})

    def renew(self, claims: Sequence[ItemClaim], *, lease_s: float) -> None:
        """Hold items of one job longer. Call `Ledger.still_held` first."""
        if claims:
            until = now() + timedelta(seconds=lease_s)
            self._connection.execute(_RENEW, {**self._at(claims), "lease": until, "now": now()})

    def _at(self, claims: Sequence[ItemClaim]) -> dict[str, Any]:
        ordinals = [claim.ordinal for claim in claims]
        return {"tenant": self._tenant_id, "job": claims[0].job_id, "ordinals": ordinals}


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

_ITEMS = f" WHERE tenant_id = :tenant AND job_id = :job AND ordinal IN :ordinals AND {may(Move.PUT_BACK)}"

_QUEUE = text(
    f"UPDATE job_items SET {becomes(Move.PUT_BACK)}, lease_until = NULL, next_attempt_at = :now, body_bytes = :size,"
    f" attempts = attempts - 1, error_code = NULL, error_detail = NULL, updated_at = :now{_ITEMS}"
).bindparams(bindparam("ordinals", expanding=True))

_RENEW = text(f"UPDATE job_items SET lease_until = :lease, updated_at = :now{_ITEMS}").bindparams(
    bindparam("ordinals", expanding=True)
)
