"""How much a tenant may store and queue, and how much it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection, text

from pipeline.errors import QueueFull, QuotaExceeded
from pipeline.records import TenantId
from pipeline.stores.rows import now
from pipeline.stores.usage import Usage

_COME_BACK_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one tenant; 0 is no limit."""

    documents: int = 0
    chunks: int = 0
    queued: int = 0
    tokens: int = 0


class Quotas:
    """One tenant's limits, checked in the transaction that would go beyond them."""

    def __init__(self, connection: Connection, tenant_id: TenantId, defaults: Limits) -> None:
        self._connection = connection
        self._tenant_id = tenant_id
        self._defaults = defaults

    def check(self, *, arriving: int) -> None:
        """Call when the documents are written and their items are not. Where there is a limit to keep, the tenant's row
        stays locked: two batches at once cannot both take the last place.

        Raises QuotaExceeded if the tenant has more documents than it may, or as many chunks or tokens, or wants to
        queue more at once than its queue takes; QueueFull if its queue has no room for ``arriving`` now.
        """
        if not arriving:
            return
        limits = self._limits()
        if limits != Limits():
            self._connection.execute(_LOCK, {"tenant": self._tenant_id})
        if limits.documents and (there := self._count(_DOCUMENTS)) > limits.documents:
            raise QuotaExceeded(
                f"The tenant would have {there} documents and may have {limits.documents}.",
                quota={"name": "documents", "limit": limits.documents, "used": there},
            )
        if limits.chunks and (there := self._count(_CHUNKS)) >= limits.chunks:
            raise QuotaExceeded(
                f"The tenant has {there} chunks and may have {limits.chunks}.",
                quota={"name": "chunks", "limit": limits.chunks, "used": there},
            )
        if limits.tokens and (spent := self._spent()) >= limits.tokens:
            raise QuotaExceeded(
                f"The tenant has had {spent} tokens embedded this month and may have {limits.tokens}.",
                quota={"name": "tokens", "limit": limits.tokens, "used": spent},
            )
        if limits.queued and arriving > limits.queued:
            raise QuotaExceeded(
                f"{arriving} documents are more than the {limits.queued} that may wait at a time.",
                quota={"name": "queued", "limit": limits.queued, "used": arriving},
            )
        if limits.queued and (there := self._count(_QUEUED)) + arriving > limits.queued:
            raise QueueFull(
                f"{there} documents wait already, and {limits.queued} may; {arriving} more have no room.",
                retry_after_s=_COME_BACK_S,
                quota={"name": "queued", "limit": limits.queued, "used": there},
            )

    def check_files(self, count: Callable[[], int]) -> None:
        """Raises QuotaExceeded if more files are kept than documents may be; ``count`` is asked only where these are
        limited."""
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

    def _limits(self) -> Limits:
        """The tenant's own limits, else the defaults."""
        row = self._connection.execute(_OWN, {"tenant": self._tenant_id}).one_or_none()
        own = (None,) * 4 if row is None else tuple(row)
        default = (self._defaults.documents, self._defaults.chunks, self._defaults.queued, self._defaults.tokens)
        documents, chunks, queued, tokens = (d if o is None else int(o) for o, d in zip(own, default, strict=True))
        return Limits(documents=documents, chunks=chunks, queued=queued, tokens=tokens)

    def _spent(self) -> int:
        """Tokens embedded in this calendar month, UTC."""
        today = now().date()
        usage = Usage(self._connection, self._tenant_id)
        return usage.total(today.replace(day=1), today).counts.tokens

    def _count(self, statement: str) -> int:
        return int(self._connection.execute(text(statement), {"tenant": self._tenant_id}).scalar_one() or 0)


def own_requests_per_minute(connection: Connection, tenant_id: TenantId) -> int | None:
    """How often the tenant may ask, 0 for no limit; None if the setting holds for it."""
    statement = text("SELECT quota_requests_per_minute FROM tenants WHERE tenant_id = :tenant")
    found = connection.execute(statement, {"tenant": tenant_id}).scalar_one_or_none()
    return None if found is None else int(found)


_OWN = text("SELECT quota_documents, quota_chunks, quota_queued, quota_tokens FROM tenants WHERE tenant_id = :tenant")

_LOCK = text("SELECT tenant_id FROM tenants WHERE tenant_id = :tenant FOR UPDATE")

_DOCUMENTS = "SELECT COUNT(*) FROM documents WHERE tenant_id = :tenant AND latest_generation > deleted_generation"

_CHUNKS = "SELECT SUM(chunk_count) FROM namespaces WHERE tenant_id = :tenant"

_QUEUED = (
    "SELECT COUNT(*) FROM jobs j JOIN job_items i ON i.tenant_id = j.tenant_id AND i.job_id = j.job_id"
    " AND i.state = 'queued' WHERE j.tenant_id = :tenant AND j.finished_at IS NULL"
)
