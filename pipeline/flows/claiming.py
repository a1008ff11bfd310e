"""Take the next batch of work: whose turn it is, and how much at once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import structlog

from pipeline.flows.resources import Resources
from pipeline.records import JobId, TenantId
from pipeline.stores.claims import Claim, Claims
from pipeline.stores.jobs import Ledger
from pipeline.stores.turns import Turn, Turns, turns, waiting_for_each_other
from pipeline.stores.work import unit_of_work

_SHARED = 4  # while others wait, batches are a quarter, so that nobody waits long for the next turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A batch, and for whom the bell is to be rung when it has ended; None if nothing else was due."""

    tenant_id: TenantId
    claims: tuple[Claim, ...]
    heir: Turn | None


def somebody_waits(use: Resources, *, besides: Collection[TenantId] = ()) -> bool:
    """Return whether a tenant other than ``besides`` has due work."""
    with unit_of_work(use.mysql) as work:
        return any(turn.tenant_id not in besides for turn in turns(work.connection))


def take_next(use: Resources, *, besides: Collection[TenantId] = ()) -> Taken | None:
    """Claim a batch of the least recently served tenant, or return None. Tenants in ``besides``, whose batches wait in
    this process, get none. Binds the ids of the work to later log lines."""
    with unit_of_work(use.mysql) as work:
        waiting = turns(work.connection)
    share = _SHARED if besides or waiting_for_each_other(waiting) else 1
    full: set[TenantId] = set(besides)
    for place, turn in enumerate(waiting):
        if turn.tenant_id in full:
            continue
        claims = take(turn.tenant_id, turn.job_id, use, share=share)
        if claims is None:
            full.add(turn.tenant_id)
        elif claims.items:
            structlog.contextvars.bind_contextvars(
                tenant_id=turn.tenant_id, job_id=turn.job_id, request_id=turn.request_id
            )
            heir = next(iter(waiting[place + 1 :]), turn if claims.more else None)
            return Taken(tenant_id=turn.tenant_id, claims=claims.items, heir=heir)
    return None


def take(tenant_id: TenantId, job_id: JobId, use: Resources, *, share: int = 1) -> Claims | None:
    """Take a batch of one job, a ``share``-th of a full one. None if its tenant has as many under way as it may."""
    limits = use.settings
    with unit_of_work(use.mysql) as work:
        round_robin = Turns(work.connection, tenant_id)
        if limits.ingest_tenant_batches and round_robin.batches_in_flight() >= limits.ingest_tenant_batches:
            return None
        claims = Ledger(work.connection, tenant_id).claim(
            job_id,
            limit=max(1, limits.ingest_batch_documents // share),
            max_bytes=max(1, limits.ingest_batch_bytes // share),
            lease_s=limits.ingest_lease_s,
            fetch_limit=-(-use.fetches.room(tenant_id) // share),
        )
        if claims.items:
            round_robin.served(job_id)
    return claims
