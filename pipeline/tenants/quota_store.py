"""Quotas of a tenant on stored and queued documents, and their use."""

import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace

from cachetools import TTLCache
from sqlalchemy import Connection

from chordwise.contract.tenant import OwnQuotasView
from pipeline.database.rows import TenantStore, now
from pipeline.database.statements import sql
from pipeline.errors import QuotaExceeded
from pipeline.records import TenantId
from pipeline.tenants.usage_store import Usage

_ENDED = "GREATEST({d}deleted_generation, {d}failed_generation, {d}cancelled_generation)"
# A document that is searchable, or whose latest upload may still become so: counted by quotas and shown in lists.
ALIVE = f"({{d}}published_generation IS NOT NULL OR {{d}}latest_generation > {_ENDED})"

_RETRY_AFTER_S = 10.0
HEADROOM = 100_000  # documents; a tenant with more room than that is not counted at each batch
_COUNTED_FOR_S = 30.0
# The share of a quota that an ordinary document takes, and the error of a tenant beyond the quota.
_STORED = {
    "documents": (1, "The tenant would have {used} documents and may have {limit}."),
    "chunks": (10, "The tenant has {used} chunks and may have {limit}."),
    "tokens": (1000, "The tenant has had {used} tokens embedded this month and may have {limit}."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaLimits:
    """Limits of one tenant; 0 is no limit."""

    documents: int = 0
    chunks: int = 0
    queued: int = 0
    tokens: int = 0


@dataclass(slots=True)
class _Room:
    """The documents that a tenant may still add under these limits without a count."""

    limits: QuotaLimits
    documents: int


class QuotaRooms:
    """This process's recent counts of documents that tenants may still add, so that a batch far from its limits needs
    no count and no lock. Several processes may each admit up to the headroom."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, most: int = 10_000) -> None:
        self._rooms: TTLCache[TenantId, _Room] = TTLCache(most, _COUNTED_FOR_S, timer=clock)
        self._lock = threading.Lock()

    def take(self, tenant_id: TenantId, limits: QuotaLimits, arriving: int) -> bool:
        """Return whether ``arriving`` documents are known to fit, and if so count them."""
        with self._lock:
            room = self._rooms.get(tenant_id)
            if room is None or room.limits != limits or room.documents < arriving:
                return False
            room.documents -= arriving  # in place: the count expires when it would have
            return True

    def store(self, tenant_id: TenantId, limits: QuotaLimits, room: int) -> None:
        """Store how many more documents fit, if there are many."""
        with self._lock:
            self._rooms.pop(tenant_id, None)
            if room > HEADROOM:
                self._rooms[tenant_id] = _Room(limits, room - HEADROOM)


class Quotas(TenantStore):
    """One tenant's limits, checked in the transaction that would go beyond them."""

    def __init__(
        self, connection: Connection, tenant_id: TenantId, defaults: QuotaLimits, *, rooms: QuotaRooms | None = None
    ) -> None:
        """Set the limits. ``rooms``: this process's counts for tenants that are far from their limits."""
        super().__init__(connection, tenant_id)
        self._defaults = defaults
        self._rooms = rooms or QuotaRooms()

    def check(self, *, arriving: int) -> None:
        """Check the limits, after documents and before their items are written. Near a limit the tenant's row stays locked.

        Raises QuotaExceeded for too many documents, chunks or tokens, and for more than the queue can ever hold; with
        ``retry_after_s`` if the queue has no room for ``arriving`` now."""
        if not arriving:
            return
        limits = self._limits()
        if limits == QuotaLimits() or self._rooms.take(self._tenant_id, limits, arriving):
            return
        self._run(_LOCK)
        rooms = []
        for name, (per_document, detail) in _STORED.items():
            if limit := getattr(limits, name):
                used = self._used(name)
                if used > limit or (used == limit and name != "documents"):  # of which the arriving ones are counted
                    raise _exceeded(detail.format(used=used, limit=limit), name, limit, used)
                rooms.append((limit - used) // per_document)
        if limit := limits.queued:
            if arriving > limit:
                detail = f"{arriving} documents are more than the {limit} that may wait at a time."
                raise _exceeded(detail, "queued", limit, arriving)
            used = self._used("queued")
            rooms.append(limit - used - arriving)
            if used + arriving > limit:
                raise QuotaExceeded(
                    f"{used} documents wait already, and {limit} may; {arriving} more have no room.",
                    code="too_many_queued",
                    retry_after_s=_RETRY_AFTER_S,
                    quota={"name": "queued", "limit": limit, "used": used},
                )
        self._rooms.store(self._tenant_id, limits, min(rooms, default=2 * HEADROOM))

    def check_files(self, count: Callable[[], int]) -> None:
        """Raise QuotaExceeded for more files than the limit on documents; ``count`` is called only with one."""
        limit = self._limits().documents
        if limit and (used := count()) > limit:
            raise _exceeded(f"The tenant would keep {used} files and may keep {limit}.", "documents", limit, used)

    def use(self) -> dict[str, tuple[int, int]]:
        """Return each quota's limit, 0 for none, and its use. Locks nothing."""
        return {name: (limit, self._used(name)) for name, limit in asdict(self._limits()).items()}

    def _limits(self) -> QuotaLimits:
        """Return the tenant's own limits, else the defaults."""
        row = self._run(_OWN).mappings().one_or_none()
        own = {} if row is None else {name: row[name] for name in _LIMITS if row[name] is not None}
        return replace(self._defaults, **own)

    def _used(self, quota: str) -> int:
        """Return the use of a quota; of tokens in this calendar month, UTC."""
        if quota == "tokens":
            today = now().date()
            return Usage(self._connection, self._tenant_id).embedded_tokens(today.replace(day=1), today)
        return int(self._run(_COUNTS[quota]).scalar_one() or 0)


def _exceeded(detail: str, name: str, limit: int, used: int) -> QuotaExceeded:
    return QuotaExceeded(detail, quota={"name": name, "limit": limit, "used": used})


class QuotaColumns(TenantStore):
    """The quotas in a tenant's own row."""

    def read(self) -> OwnQuotasView:
        """Return the quotas that were set for the tenant."""
        return OwnQuotasView(**self._run(_OWN).mappings().one())

    def write(self, own: OwnQuotasView) -> None:
        """Write the tenant's own quotas; None restores the installation's setting."""
        assignments = ", ".join(f"quota_{name} = :{name}" for name in _QUOTAS)
        self._run(f"UPDATE tenants SET {assignments} WHERE tenant_id = :tenant", **asdict(own))

    def requests_per_minute(self) -> int | None:
        """Return how often the tenant may ask, 0 for no limit; None if the installation's setting holds for it."""
        statement = "SELECT quota_requests_per_minute FROM tenants WHERE tenant_id = :tenant"
        limit: int | None = self._run(statement).scalar_one_or_none()
        return limit


_LIMITS = tuple(field.name for field in fields(QuotaLimits))
_QUOTAS = tuple(field.name for field in fields(OwnQuotasView))
_OWN = sql(f"SELECT {', '.join(f'quota_{name} AS {name}' for name in _QUOTAS)} FROM tenants WHERE tenant_id = :tenant")

_LOCK = sql("SELECT tenant_id FROM tenants WHERE tenant_id = :tenant FOR UPDATE")

_COUNTS = {
    "documents": f"SELECT COUNT(*) FROM documents WHERE tenant_id = :tenant AND {ALIVE.format(d='')}",
    "chunks": "SELECT SUM(chunk_count) FROM namespaces WHERE tenant_id = :tenant",
    "queued": "SELECT COUNT(*) FROM jobs j JOIN job_items i ON i.tenant_id = j.tenant_id AND i.job_id = j.job_id"
    " AND i.state = 'queued' WHERE j.tenant_id = :tenant AND j.finished_at IS NULL",
}
