"""The states of an idempotency key."""

from dataclasses import dataclass
from typing import Final

from pipeline.records import TenantId

ANSWER_KEPT_S: Final = 24 * 3600  # a job is kept at least as long, because the answer names it
LEASE_S: Final = 9.0  # that a request which died holds its key; a living one renews it every three seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldKey:
    """A tenant's key, by its digest of 32 bytes, that a request holds and is to perform; ``token`` proves the claim.
    ``work_id``: of all attempts with it."""

    tenant_id: TenantId
    digest: bytes
    token: str
    work_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Another request holds the key; it renews the lease within ``lease_left_s`` seconds, or is dead."""

    lease_left_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The request was answered, with this ``fingerprint``. ``answer``: as given to ``keep``."""

    fingerprint: bytes
    status: int
    answer: bytes
