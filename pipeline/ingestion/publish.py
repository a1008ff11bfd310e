"""Publish prepared documents: move their pointers in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import structlog

from pipeline.database.unit_of_work import UnitOfWork
from pipeline.documents.chunk_store import Chunks
from pipeline.documents.document_store import Documents, IngestedDocument
from pipeline.documents.generation_store import Generations
from pipeline.documents.retention_store import RetainedGenerations, Retired
from pipeline.ingestion.finish_items import close
from pipeline.ingestion.prepare import PreparedDocument
from pipeline.ingestion.standby import settle
from pipeline.jobs.lease_store import Lease
from pipeline.keyword.statistics_store import Statistics
from pipeline.records import Generation, TenantId
from pipeline.resources import Resources

log = structlog.get_logger(__name__)


def publish(lease: Lease, prepared: Sequence[PreparedDocument], use: Resources) -> None:
    """Move the pointers once vectors are complete. Replaced generations are dropped later, when no earlier query needs
    them. Raises VectorsMissing, LeaseLost."""
    tenant_id = lease.tenant_id
    by_generation = {item.claim.generation: item for item in prepared}
    vectors = use.vectors(tenant_id)
    counts = vectors.counts(list(by_generation))
    complete = vectors.complete({g: len(item.searchable) for g, item in by_generation.items()}, counts)
    claims = [item.claim for item in prepared]
    with lease.held(claims) as (work, ledger):
        space = settle(tenant_id, work.connection, complete, by_generation, use)
        before = _flip(tenant_id, by_generation, work, model=space.model)
        replaced = [replace(g, number=shown) for g, shown in before.items() if shown is not None and shown != g.number]
        superseded = [g for g in by_generation if g not in before]
        retired = Retired(work.connection, tenant_id)
        retired.add(replaced, after_s=use.settings.retired_grace_s, replaced=True)
        retired.add(superseded)
        if later := [g for g in before if g.number > 1]:
            kept_s = use.settings.previous_generation_kept_s
            RetainedGenerations(work.connection, tenant_id).keep(replaced, for_s=kept_s)
            retired.add(Generations(work.connection, tenant_id).outdated(later))
        created = [by_generation[g] for g, shown in before.items() if shown is None]
        updated = [by_generation[g] for g, shown in before.items() if shown is not None]
        for outcome, items in {"created": created, "replaced": updated}.items():
            chunks = {item.claim: len(item.chunks) for item in items}
            ledger.succeed(chunks, outcome=outcome, reused={item.claim: item.reused for item in items})
        ledger.succeed({by_generation[g].claim: 0 for g in superseded}, outcome="superseded")
        close(tenant_id, claims, ledger, use, work)
    shown_chunks = sum(len(by_generation[g].chunks) for g in before)
    use.meter.count("chordwise_documents_shown", len(before))
    use.meter.count("chordwise_chunks_shown", shown_chunks)
    log.info("documents_shown", documents=len(before), chunks=shown_chunks)


def _flip(
    tenant_id: TenantId, prepared: Mapping[Generation, PreparedDocument], work: UnitOfWork, *, model: str
) -> dict[Generation, int | None]:
    """Move the pointer of each document that may move, and keep the statistics exact. Return the number shown before."""
    documents = Documents(work.connection, tenant_id)
    chunk_store = Chunks(work.connection, tenant_id)
    statistics = Statistics(work.connection, tenant_id)
    before = documents.lock(list(prepared))
    moving = {g: shown for g, shown in before.items() if shown != g.number}
    shown = {
        g: IngestedDocument(
            chunk_count=len(prepared[g].chunks),
            title=prepared[g].title,
            recipe=prepared[g].recipe,
            encoding=prepared[g].encoding,
            pages=prepared[g].pages,
        )
        for g in moving
    }
    documents.show(shown, model=model)
    for namespace in sorted({g.scope.namespace for g in moving}):
        mine = {g: shown for g, shown in moving.items() if g.scope.namespace == namespace}
        added = [chunk.terms for g in mine for chunk in prepared[g].searchable]
        removed = chunk_store.terms_of([replace(g, number=shown) for g, shown in mine.items() if shown is not None])
        statistics.count(namespace, added, removed, document_ids=[g.document_id for g in mine])
    return before
