"""Giving every chunk of a batch its vector."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from pipeline.errors import EmbedderRefused
from pipeline.flows.closing import end
from pipeline.flows.preparing import Prepared, advance
from pipeline.flows.resources import Resources
from pipeline.flows.reusing import embed_or_reuse
from pipeline.records import Generation, Stage, TenantId
from pipeline.stores.rows import slices

_CHUNKS_PER_LEASE = 1024  # embedded and stored before the lease is renewed


def embed(tenant_id: TenantId, prepared: Sequence[Prepared], use: Resources) -> list[Prepared]:
    """Give every chunk its vector, renewing the lease as it goes; texts that a document had before keep theirs.
    Documents with a text that the model will never take are parked, and the others go on."""
    fields = {item.claim.generation: item.fields for item in prepared}
    claims = [item.claim for item in prepared]
    chunks = [chunk for item in prepared for chunk in item.to_embed]
    replacing = {item.claim.generation for item in prepared if item.replaces}
    kept: Counter[Generation] = Counter()
    for some in slices(chunks, _CHUNKS_PER_LEASE):
        try:
            vectors, reused = embed_or_reuse(tenant_id, some, replacing, use)
        except EmbedderRefused as error:
            guilty = {some[index].generation for index in error.indexes} or set(fields)
            end(tenant_id, [], [(c, error) for c in claims if c.generation in guilty], use)
            return embed(tenant_id, [item for item in prepared if item.claim.generation not in guilty], use)
        use.vectors(tenant_id).upsert(some, vectors, fields=fields, model=use.embedder.model)
        kept.update(chunk.generation for chunk in reused)
        if some[-1] is not chunks[-1]:
            advance(tenant_id, claims, Stage.CHUNKED, use)
    advance(tenant_id, claims, Stage.EMBEDDED, use)
    return [replace(item, reused=kept[item.claim.generation]) for item in prepared]
