"""Claim idempotency keys: one request at a time holds a key, and its answer is stored for repetitions.
Every function raises StoreUnavailable."""

from pipeline.database.engines import Conflict, LockHeld
from pipeline.database.unit_of_work import unit_of_work
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.tenants.idempotency import ANSWER_KEPT_S, LEASE_S, Answered, HeldKey, Running
from pipeline.tenants.idempotency_store import IdempotencyKeys

_TRIES = 3


def claim(tenant_id: TenantId, digest: bytes, use: Resources) -> HeldKey | Running | Answered:
    """Claim a key, or return its state."""
    state: HeldKey | Running | Answered | None = None
    for _ in range(_TRIES):
        try:
            with unit_of_work(use.mysql) as work:
                state = IdempotencyKeys(work.connection, tenant_id).insert(digest, lease_s=LEASE_S, ttl_s=ANSWER_KEPT_S)
            if state is None:
                with unit_of_work(use.mysql) as work:
                    state = IdempotencyKeys(work.connection, tenant_id).claim(
                        digest, lease_s=LEASE_S, ttl_s=ANSWER_KEPT_S
                    )
        except LockHeld:
            raise
        except Conflict:
            continue
        if state is not None:
            return state
    return Running(lease_left_s=1.0)  # the row keeps appearing and disappearing, so another request is working with it


def renew(key: HeldKey, use: Resources) -> bool:
    """Extend the lease. Return False if another request holds the key now."""
    with unit_of_work(use.mysql) as work:
        keys = IdempotencyKeys(work.connection, key.tenant_id)
        return keys.renew(key.digest, key.token, lease_s=LEASE_S)


def keep(key: HeldKey, answer: Answered, use: Resources) -> bool:
    """Store the answer. Return False if another request holds the key now."""
    with unit_of_work(use.mysql) as work:
        keys = IdempotencyKeys(work.connection, key.tenant_id)
        return keys.keep(key.digest, key.token, answer, ttl_s=ANSWER_KEPT_S)


def free(key: HeldKey, use: Resources, *, made_something: bool) -> None:
    """Free the key. ``made_something``: the next request gets this one's work id, as it may have made something."""
    with unit_of_work(use.mysql) as work:
        keys = IdempotencyKeys(work.connection, key.tenant_id)
        (keys.let_go if made_something else keys.free)(key.digest, key.token)
