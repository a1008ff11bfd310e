"""Turn accepted documents into searchable ones: claim, parse, write aside, embed, show, clean up.

Every step may die anywhere or run twice: chunk ids repeat themselves, vectors are complete before the pointer moves,
and old generations go only after it has (`flows/upkeep`). Whoever finds the item next finishes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import structlog

from pipeline.errors import IngestCrowded, LeaseLost, Misconfigured, Unavailable, VectorsMissing
from pipeline.flows.claiming import somebody_waits, take, take_next
from pipeline.flows.embedding import embed
from pipeline.flows.fetching import Ring, hand_over
from pipeline.flows.postponing import give_up_or_retry
from pipeline.flows.preparing import Aside, Breather, prepare, write_aside
from pipeline.flows.resources import Resources
from pipeline.flows.showing import show
from pipeline.flows.unpacking import keep_vectors
from pipeline.records import JobId, TenantId
from pipeline.sandbox.parser import MOST_AT_ONCE
from pipeline.stores.engines import Conflict
from pipeline.stores.jobs import Claim, Ledger
from pipeline.stores.work import unit_of_work

_PATIENCE_S = 1.0  # seconds for a document if no other tenant can be served meanwhile

log = structlog.get_logger(__name__)


def ingest_next(use: Resources, *, ring: Callable[[TenantId, JobId], object]) -> int:
    """Work on one batch of whoever's turn it is; ring again afterwards if more is due. Gives how many documents.

    A bell is a leave to work on one batch, no matter whose: it is passed on when the batch has ended, so as many
    batches are under way as bells were rung.
    """
    taken = take_next(use)
    if taken is None:
        return 0
    _begin(taken.tenant_id, taken.claims, use, ring=ring, aside=_Aside(use, ring, (taken.tenant_id,)))
    if taken.heir:
        ring(taken.heir.tenant_id, taken.heir.job_id)
    return len(taken.claims)


def ingest_batch(
    tenant_id: TenantId, job_id: JobId, use: Resources, *, ring: Callable[[TenantId, JobId], object]
) -> int:
    """Work on one batch of the job's due items; ring again if more are due. Returns how many. Faulty documents fail
    alone; a missing dependency puts items back."""
    claims = take(tenant_id, job_id, use)
    if claims is None or not claims.items:
        return 0
    _begin(tenant_id, claims.items, use, ring=ring, aside=_Aside(use, ring, (tenant_id,)))
    if claims.more:
        ring(tenant_id, job_id)
    return len(claims.items)


class _Aside:
    """Works for other tenants while a document of this batch takes long in its own process.

    A slow document therefore delays only the later documents of its own tenant. If several batches wait for slow
    documents, one nested in the other, the innermost postpones its document.
    """

    def __init__(self, use: Resources, ring: Ring, held_up: tuple[TenantId, ...]) -> None:
        """``held_up``: the tenants whose batches wait, the innermost last."""
        self._use, self._ring, self._held_up = use, ring, held_up

    def __call__(self, held_s: float) -> None:
        """Work on one batch of another tenant, if there is one. Raises IngestCrowded if that is impossible."""
        try:
            if len(self._held_up) < MOST_AT_ONCE:
                self._serve()
            elif held_s > _PATIENCE_S and somebody_waits(self._use, besides=self._held_up):
                raise IngestCrowded("the document takes long while others wait")
        except IngestCrowded:
            raise
        except Unavailable as error:
            log.warning("nobody_served_meanwhile", code=error.code)

    def _serve(self) -> None:
        before = structlog.contextvars.get_contextvars()
        try:
            taken = take_next(self._use, besides=self._held_up)
            if taken is not None:
                log.info("served_meanwhile", documents=len(taken.claims), waiting=len(self._held_up))
                beside = _Aside(self._use, self._ring, (*self._held_up, taken.tenant_id))
                _begin(taken.tenant_id, taken.claims, self._use, ring=self._ring, aside=beside)
        finally:
            structlog.contextvars.clear_contextvars()
            structlog.contextvars.bind_contextvars(**before)


def _begin(tenant_id: TenantId, claims: Sequence[Claim], use: Resources, *, ring: Ring, aside: Aside) -> None:
    """Work on what has its bytes; what is to be fetched goes to threads, and comes back to the queue with them."""
    ready = hand_over(tenant_id, claims, use, ring=ring)
    if ready:
        _work_on(tenant_id, ready, use, aside)


def _work_on(tenant_id: TenantId, claims: Sequence[Claim], use: Resources, aside: Aside) -> None:
    """Carry claims to their end together; where one of them spoils the batch, each goes its own way."""
    try:
        _carry_out(tenant_id, claims, use, aside)
    except LeaseLost as error:
        kept = _still_held(tenant_id, claims, use)
        log.warning("lease_lost", job_id=claims[0].job_id, lost=len(claims) - len(kept), detail=str(error))
        if 0 < len(kept) < len(claims):
            _work_on(tenant_id, [replace(claim, again=True) for claim in kept], use, aside)
    except Conflict as error:
        _put_back(tenant_id, claims, error, use)
    except Unavailable as error:
        if len(claims) > 1 and isinstance(error, VectorsMissing):
            _one_by_one(tenant_id, claims, use, aside)
        else:
            _put_back(tenant_id, claims, error, use)
    except Misconfigured as error:
        _put_back(tenant_id, claims, error, use)
    except Exception as error:
        if len(claims) > 1:
            _one_by_one(tenant_id, claims, use, aside)
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


def _one_by_one(tenant_id: TenantId, claims: Sequence[Claim], use: Resources, aside: Aside) -> None:
    for claim in claims:
        _work_on(tenant_id, [replace(claim, again=True)], use, aside)


def _carry_out(tenant_id: TenantId, claims: Sequence[Claim], use: Resources, aside: Aside) -> None:
    prepared = prepare(tenant_id, claims, use, aside=aside)
    if not prepared:
        return
    chunks = [chunk for item in prepared for chunk in item.chunks]
    breather = Breather(aside)
    write_aside(tenant_id, prepared, chunks, use, breather)
    breather.take()
    use.bells.progressed(tenant_id, claims[0].job_id)
    keep_vectors(tenant_id, prepared, use)
    embedded = embed(tenant_id, prepared, use, breather=breather)
    if embedded:
        use.bells.progressed(tenant_id, claims[0].job_id)
        show(tenant_id, embedded, use)


def _put_back(tenant_id: TenantId, claims: Sequence[Claim], error: Exception, use: Resources) -> None:
    for claim in claims:
        give_up_or_retry(tenant_id, claim, error, use)
