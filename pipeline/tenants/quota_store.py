"""How much a tenant may store and queue, and how much it does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass

from cachetools import TTLCache
from sqlalchemy import Connection, text

from pipeline.database.rows import TenantStore, now
from pipeline.errors import QueueFull, QuotaExceeded
from pipeline.records import TenantId
from pipeline.tenants.accounts import OwnQuotas
from pipeline.tenants.usage_store import Usage

_ENDED = "GREATEST({d}deleted_generation, {d}failed_generation, {d}cancelled_generation)"
# A document that is searchable, or whose latest upload may still become so: what quotas count and lists show.
ALIVE = f"({{d}}published_generation IS NOT NULL OR {{d}}latest_generation > {_ENDED})"

_COME_BACK_S = 10.0
HEADROOM = 100_000  # documents; a tenant with more room than that is not counted at each batch
_COUNTED_FOR_S = 30.0
_CHUNKS_OF_ONE, _TOKENS_OF_ONE = 10, 1000  # per ordinary document, to convert chunks and tokens to documents


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaLimits:
    """Of one tenant; 0 is no limit."""

    documents: int = 0
    chunks: int = 0
    queued: int = 0
    tokens: int = 0


@dataclass(slots=True)
class _Room:
    """The documents that a tenant may still add under these limits without a count."""

    limits: QuotaLimits
    documents: int


class Rooms:
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

    def note(self, tenant_id: TenantId, limits: QuotaLimits, room: int) -> None:
        """Remember how many more documents fit, if there are many."""
        with self._lock:
            self._rooms.pop(tenant_id, None)
            if room > HEADROOM:
                self._rooms[tenant_id] = _Room(limits, room - HEADROOM)


class Quotas(TenantStore):
    """One tenant's limits, checked in the transaction that would go beyond them."""

    def __init__(
        self, connection: Connection, tenant_id: TenantId, defaults: QuotaLimits, *, rooms: Rooms | None = None
    ) -> None:
        """``rooms``: this process's counts for tenants that are far from their limits."""
        super().__init__(connection, tenant_id)
        self._defaults = defaults
        self._rooms = rooms or Rooms()

    def check(self, *, arriving: int) -> None:
        """Check limits after documents and before items are written; near a limit the tenant's row stays locked. Raises
        QuotaExceeded for too many documents, chunks, tokens or a batch above the queue's size; QueueFull without room
        for ``arriving``."""
        if not arriving:
            return
        limits = self._limits()
        if limits == QuotaLimits() or self._rooms.take(self._tenant_id, limits, arriving):
            return
        self._run(_LOCK)
        rooms = []
        if limits.documents:
            there = self._count(_DOCUMENTS)
            rooms.append(limits.documents - there)
        if limits.documents and there > limits.documents:
            raise QuotaExceeded(
                f"The tenant would have {there} documents and may have {limits.documents}.",
                quota={"name": "documents", "limit": limits.documents, "used": there},
            )
        if limits.chunks:
            there = self._count(_CHUNKS)
            rooms.append((limits.chunks - there) // _CHUNKS_OF_ONE)
        if limits.chunks and there >= limits.chunks:
            raise QuotaExceeded(
                f"The tenant has {there} chunks and may have {limits.chunks}.",
                quota={"name": "chunks", "limit": limits.chunks, "used": there},
            )
        if limits.tokens:
            spent = self._spent()
            rooms.append((limits.tokens - spent) // _TOKENS_OF_ONE)
        if limits.tokens and spent >= limits.tokens:
            raise QuotaExceeded(
                f"The tenant has had {spent} tokens embedded this month and may have {limits.tokens}.",
                quota={"name": "tokens", "limit": limits.tokens, "used": spent},
            )
        if limits.queued and arriving > limits.queued:
            raise QuotaExceeded(
                f"{arriving} documents are more than the {limits.queued} that may wait at a time.",
                quota={"name": "queued", "limit": limits.queued, "used": arriving},
            )
        if limits.queued:
            there = self._count(_QUEUED)
            rooms.append(limits.queued - there - arriving)
        if limits.queued and there + arriving > limits.queued:
            raise QueueFull(
                f"{there} documents wait already, and {limits.queued} may; {arriving} more have no room.",
                retry_after_s=_COME_BACK_S,
                quota={"name": "queued", "limit": limits.queued, "used": there},
            )
        self._rooms.note(self._tenant_id, limits, min(rooms, default=2 * HEADROOM))

    def check_files(self, count: Callable[[], int]) -> None:
        """Raise QuotaExceeded for more files than the limit on documents; ``count`` is called only with one."""
        limit = self._limits().documents
        if limit and (there := count()) > limit:
            raise QuotaExceeded(
                f"The tenant would keep {there} files and may keep {limit}.",
                quota={"name": "documents", "limit": limit, "used": there},
            )

    def use(self) -> dict[str, tuple[int, int]]:
        """Each quota's limit, 0 for none, and how much of it is used. Nothing is locked."""
        limits = self._limits()
        return {
            "documents": (limits.documents, self._count(_DOCUMENTS)),
            "chunks": (limits.chunks, self._count(_CHUNKS)),
            "queued": (limits.queued, self._count(_QUEUED)),
            "tokens": (limits.tokens, self._spent()),
        }

    def _limits(self) -> QuotaLimits:
        """The tenant's own limits, else the defaults."""
        row = self._run(_OWN).one_or_none()
        own = (None,) * 4 if row is None else tuple(row)
        default = (self._defaults.documents, self._defaults.chunks, self._defaults.queued, self._defaults.tokens)
        documents, chunks, queued, tokens = (d if o is None else int(o) for o, d in zip(own, default, strict=True))
        return QuotaLimits(documents=documents, chunks=chunks, queued=queued, tokens=tokens)

    def _spent(self) -> int:
        """Tokens embedded in this calendar month, UTC."""
        today = now().date()
        usage = Usage(self._connection, self._tenant_id)
        return usage.total(today.replace(day=1), today).counts.tokens

    def _count(self, statement: str) -> int:
        return int(self._run(text(statement)).scalar_one() or 0)


def own_quotas(connection: Connection, tenant_id: TenantId) -> OwnQuotas:
    """Return the values in the tenant's own row."""
    row = connection.execute(
        text(f"SELECT {_OWN_COLUMNS} FROM tenants WHERE tenant_id = :tenant"), {"tenant": tenant_id}
    )
    return OwnQuotas(**dict(zip(_QUOTAS, (None if own is None else int(own) for own in row.one()), strict=True)))


def set_own_quotas(connection: Connection, tenant_id: TenantId, own: OwnQuotas) -> None:
    """Write the tenant's own values; with None the installation's setting holds."""
    assignments = ", ".join(f"quota_{name} = :{name}" for name in _QUOTAS)
    connection.execute(
        text(f"UPDATE tenants SET {assignments} WHERE tenant_id = :tenant"),
        {"tenant": tenant_id, **dict(zip(_QUOTAS, astuple(own), strict=True))},
    )


def own_requests_per_minute(connection: Connection, tenant_id: TenantId) -> int | None:
    """How often the tenant may ask, 0 for no limit; None if the setting holds for it."""
    statement = text("SELECT quota_requests_per_minute FROM tenants WHERE tenant_id = :tenant")
    found = connection.execute(statement, {"tenant": tenant_id}).scalar_one_or_none()
    return None if found is None else int(found)


_QUOTAS = ("documents", "chunks", "queued", "tokens", "requests_per_minute")  # as in OwnQuotas

_OWN_COLUMNS = ", ".join(f"quota_{name}" for name in _QUOTAS)

_OWN = text("SELECT quota_documents, quota_chunks, quota_queued, quota_tokens FROM tenants WHERE tenant_id = :tenant")

_LOCK = text("SELECT tenant_id FROM tenants WHERE tenant_id = :tenant FOR UPDATE")

_DOCUMENTS = f"SELECT COUNT(*) FROM documents WHERE tenant_id = :tenant AND {ALIVE.format(d='')}"

_CHUNKS = "SELECT SUM(chunk_count) FROM namespaces WHERE tenant_id = :tenant"

_QUEUED = (
    "SELECT COUNT(*) FROM jobs j JOIN job_items i ON i.tenant_id = j.tenant_id AND i.job_id = j.job_id"
    " AND i.state = 'queued' WHERE j.tenant_id = :tenant AND j.finished_at IS NULL"
)
