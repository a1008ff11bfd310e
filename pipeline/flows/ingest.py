"""Turn accepted documents into searchable ones: claim, parse, write aside, embed, show, clean up.

Every step may die anywhere or run twice: chunk ids repeat themselves, vectors are complete before the pointer moves,
and old generations go only after it has (`flows/upkeep`). Whoever finds the item next finishes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import structlog

from pipeline.errors import LeaseLost, Misconfigured, Unavailable, VectorsMissing
from pipeline.flows.claiming import take, take_next
from pipeline.flows.embedding import embed
from pipeline.flows.fetching import hand_over
from pipeline.flows.postponing import give_up_or_retry
from pipeline.flows.preparing import prepare, write_aside
from pipeline.flows.resources import Resources
from pipeline.flows.showing import show
from pipeline.flows.unpacking import keep_vectors
from pipeline.records import JobId, TenantId
from pipeline.stores.engines import Conflict
from pipeline.stores.jobs import Claim, Ledger
from pipeline.stores.work import unit_of_work

log = structlog.get_logger(__name__)


def ingest_next(use: Resources, *, ring: Callable[[TenantId, JobId], object]) -> int:
    """Work on one batch of whoever's turn it is; ring again afterwards if more is due. Gives how many documents.

    A bell is a leave to work on one batch, no matter whose: it is passed on when the batch has ended, so as many
    batches are under way as bells were rung.
    """
    taken = take_next(use)
    if taken is None:
        return 0
    _begin(taken.tenant_id, taken.claims, use, ring=ring)
    if taken.heir:
        ring(taken.heir.tenant_id, taken.heir.job_id)
    return len(taken.claims)


def ingest_batch(
    tenant_id: TenantId, job_id: JobId, use: Resources, *, ring: Callable[[TenantId, JobId], object]
) -> int:
    """Work on the due items of one job, as many as one batch takes; ring again if more are due. Gives how many.

    A document that is at fault ends as failed and harms no other. A dependency that is away puts the items back.
    """
    claims = take(tenant_id, job_id, use)
    if claims is None or not claims.items:
        return 0
    _begin(tenant_id, claims.items, use, ring=ring)
    if claims.more:
        ring(tenant_id, job_id)
    return len(claims.items)


def _begin(
    tenant_id: TenantId, claims: Sequence[Claim], use: Resources, *, ring: Callable[[TenantId, JobId], object]
) -> None:
    """Work on what has its bytes; what is to be fetched goes to threads, and comes back to the queue with them."""
    ready = hand_over(tenant_id, claims, use, ring=ring)
    if ready:
        _work_on(tenant_id, ready, use)


def _work_on(tenant_id: TenantId, claims: Sequence[Claim], use: Resources) -> None:
    """Carry claims to their end together; where one of them spoils the batch, each goes its own way."""
    try:
        _carry_out(tenant_id, claims, use)
    except LeaseLost as error:
        kept = _still_held(tenant_id, claims, use)
        log.warning("lease_lost", job_id=claims[0].job_id, lost=len(claims) - len(kept), detail=str(error))
        if 0 < len(kept) < len(claims):
            _work_on(tenant_id, [replace(claim, again=True) for claim in kept], use)
    except Conflict as error:
        _put_back(tenant_id, claims, error, use)
    except Unavailable as error:
        if len(claims) > 1 and isinstance(error, VectorsMissing):
            _one_by_one(tenant_id, claims, use)
        else:
            _put_back(tenant_id, claims, error, use)
    except Misconfigured as error:
        _put_back(tenant_id, claims, error, use)
    except Exception as error:
        if len(claims) > 1:
            _one_by_one(tenant_id, claims, use)
        else:
            log.exception("ingest_bug", job_id=claims[0].job_id, ordinal=claims[0].ordinal)
            give_up_or_retry(tenant_id, claims[0], error, use)


def _still_held(tenant_id: TenantId, claims: Sequence[Claim], use: Resources) -> list[Claim]:
    """What is left of a batch of which something was cancelled or taken over. The lease of it runs on or runs out."""
    try:
        with unit_of_work(use.mysql) as work:
            return Ledger(work.connection, tenant_id).still_held(claims)
    except Unavailable as error:
        log.warning("left_to_the_lease", job_id=claims[0].job_id, code=error.code)
        return []


def _one_by_one(tenant_id: TenantId, claims: Sequence[Claim], use: Resources) -> None:
    for claim in claims:
        _work_on(tenant_id, [replace(claim, again=True)], use)


def _carry_out(tenant_id: TenantId, claims: Sequence[Claim], use: Resources) -> None:
    prepared = prepare(tenant_id, claims, use)
    if not prepared:
        return
    chunks = [chunk for item in prepared for chunk in item.chunks]
    write_aside(tenant_id, prepared, chunks, use)
    use.bells.progressed(tenant_id, claims[0].job_id)
    keep_vectors(tenant_id, prepared, use)
    embedded = embed(tenant_id, prepared, use)
    if embedded:
        use.bells.progressed(tenant_id, claims[0].job_id)
        show(tenant_id, embedded, use)


def _put_back(tenant_id: TenantId, claims: Sequence[Claim], error: Exception, use: Resources) -> None:
    for claim in claims:
        give_up_or_retry(tenant_id, claim, error, use)
