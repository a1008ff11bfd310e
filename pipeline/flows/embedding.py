"""Giving every chunk of a batch its vector."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.errors import EmbedderRefused
from pipeline.flows.closing import end
from pipeline.flows.preparing import Prepared, advance
from pipeline.flows.resources import Resources
from pipeline.records import Stage, TenantId
from pipeline.stores.rows import slices

_CHUNKS_PER_LEASE = 1024  # embedded and stored before the lease is renewed


def embed(tenant_id: TenantId, prepared: Sequence[Prepared], use: Resources) -> list[Prepared]:
    """Give every chunk its vector, renewing the lease as it goes. Documents with a text that the model will never take
    are parked, and the others go on."""
    fields = {item.claim.generation: item.fields for item in prepared}
    claims = [item.claim for item in prepared]
    chunks = [chunk for item in prepared for chunk in item.chunks]
    for some in slices(chunks, _CHUNKS_PER_LEASE):
        try:
            vectors = use.embedder.embed([chunk.embedding_text for chunk in some])
        except EmbedderRefused as error:
            guilty = {some[index].generation for index in error.indexes} or set(fields)
            end(tenant_id, [], [(c, error) for c in claims if c.generation in guilty], use)
            return embed(tenant_id, [item for item in prepared if item.claim.generation not in guilty], use)
        use.vectors(tenant_id).upsert(some, vectors, fields=fields, model=use.embedder.model)
        if some[-1] is not chunks[-1]:
            advance(tenant_id, claims, Stage.CHUNKED, use)
    advance(tenant_id, claims, Stage.EMBEDDED, use)
    return list(prepared)
