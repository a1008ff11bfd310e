"""Write vectors of both live embedding spaces during a model migration."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from pipeline.database.rows import slices
from pipeline.embedding.standby_backlog_store import StandbyBacklog
from pipeline.errors import PipelineError, VectorsMissing
from pipeline.ingestion.make_vectors import vectors_of
from pipeline.models.live_spaces import FRESH_S, log
from pipeline.models.ports import Matrix
from pipeline.records import Chunk, DocumentFields, EmbeddingSpace, Generation, TenantId
from pipeline.tenants.usage import Purpose

if TYPE_CHECKING:
    from pipeline.resources import Resources


_STANDBY_AT_ONCE = 256


def fill_standby(
    tenant_id: TenantId,
    chunks: Sequence[Chunk],
    fields: Mapping[Generation, DocumentFields],
    use: Resources,
    *,
    after_each: Callable[[], object],
) -> None:
    """Give chunks that are not shown yet vectors in the standby space too. Never fails for that model: missing ones are
    recorded when they are shown. ``after_each`` runs between pieces."""
    standby = use.spaces.live().standby
    if standby is None or not use.spaces.standby_answers:
        return
    try:
        embedder = use.spaces.embedder(standby)
        for piece in slices(chunks, _STANDBY_AT_ONCE):
            texts = [chunk.embedding_text for chunk in piece]
            seconds = use.settings.ingest_lease_s / 3
            vectors = vectors_of(tenant_id, texts, use, purpose=Purpose.REPAIR, embedder=embedder, timeout_s=seconds)
            use.vectors(tenant_id).upsert(piece, vectors, fields=fields, model=standby.model)
            after_each()
    except VectorsMissing:
        log.info("standby_given_up_meanwhile", space=standby.number)
    except PipelineError as error:
        if error.code == "lease_lost":
            raise
        use.spaces.standby_failed(error)


def settle(
    tenant_id: TenantId,
    connection: Connection,
    complete: Mapping[int, Collection[Generation]],
    generations: Collection[Generation],
    use: Resources,
) -> EmbeddingSpace:
    """Lock the pointer, check that the generations about to be shown are searchable, and return the active space.
    ``complete``: by space, generations with all vectors. Raises VectorsMissing for the active space; gaps of the
    standby are recorded."""
    held = use.spaces.hold(connection)
    short = [generation for generation in generations if generation not in complete.get(held.active.number, ())]
    if short:
        raise VectorsMissing(f"{len(short)} of {len(generations)} documents have fewer vectors than chunks")
    if held.standby is not None:
        ready = complete.get(held.standby.number, ())
        behind = [(g.scope.namespace, g.document_id) for g in generations if g not in ready]
        StandbyBacklog(connection, tenant_id, held.standby.number).add(behind)
    return held.active


def embed_everywhere(
    texts: Sequence[str], use: Resources, *, tenant_id: TenantId, purpose: Purpose
) -> dict[EmbeddingSpace, Matrix]:
    """Embed texts in every live space, in the standby only if its model answers. Raises the active model's errors, and
    VectorsMissing if the active space has changed."""
    embedder = use.embedder
    vectors = vectors_of(tenant_id, texts, use, purpose=purpose, embedder=embedder)
    live = use.spaces.live()
    active = live.of(embedder.model, vectors.shape[1])
    if active is None:
        raise VectorsMissing(f"{embedder.model} is no longer the active model", retry_after_s=FRESH_S)
    by_space = {active: vectors}
    for space in live.every:
        if space != active and use.spaces.standby_answers:
            try:
                other = use.spaces.embedder(space)
                seconds = use.settings.ingest_lease_s / 3
                by_space[space] = vectors_of(tenant_id, texts, use, purpose=purpose, embedder=other, timeout_s=seconds)
            except PipelineError as error:
                use.spaces.standby_failed(error)
    return by_space


def write_everywhere(
    tenant_id: TenantId,
    connection: Connection,
    chunks: Sequence[Chunk],
    vectors: Mapping[EmbeddingSpace, Matrix],
    fields: Mapping[Generation, DocumentFields],
    use: Resources,
) -> None:
    """Write vectors of shown chunks of locked documents to every live space; record gaps of the standby. Raises
    VectorsMissing if the active space has none."""
    held = use.spaces.hold(connection)
    if held.active not in vectors:
        raise VectorsMissing("the active model was switched during embedding", retry_after_s=FRESH_S)
    for space in held.every:
        if space in vectors:
            use.vectors(tenant_id).upsert(chunks, vectors[space], fields=fields, model=space.model)
        else:
            documents = {(chunk.generation.scope.namespace, chunk.generation.document_id) for chunk in chunks}
            StandbyBacklog(connection, tenant_id, space.number).add(documents)
