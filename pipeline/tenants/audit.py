"""The actor on whose behalf the present code runs, for the audit."""

import hashlib
import hmac
from contextvars import ContextVar

from chordwise.contract.tenant import AuditActor
from pipeline.records import TenantId

_ACTING: ContextVar[tuple[AuditActor, str]] = ContextVar("chordwise_acting", default=(AuditActor(), ""))


def act_as(actor: AuditActor, *, request_id: str) -> None:
    """Attribute later writes of this context to ``actor``, including those in threads that it starts."""
    _ACTING.set((actor, request_id))


def acting() -> tuple[AuditActor, str]:
    """Return the actor on whose behalf this context runs, nobody without one, and the id of its request."""
    return _ACTING.get()


def query_hash(tenant_id: TenantId, query_text: str, *, secret: str | None) -> str:
    """Return 64 hex digits, equal for equal questions: an HMAC with the installation's ``secret``, else SHA-256."""
    message = f"{tenant_id}\x1f{query_text}".encode()
    return hmac.new(secret.encode(), message, "sha256").hexdigest() if secret else hashlib.sha256(message).hexdigest()
