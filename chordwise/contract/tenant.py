"""Tenants, their keys, quotas and audit."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from chordwise.contract.record import Answered, Complete, absent_not_null


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantView(Complete):
    """An isolated customer. `disabled_at`: none of its keys works since then."""

    tenant_id: str
    name: str
    created_at: datetime
    disabled_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnQuotasView(Answered):
    """A tenant's own quotas; null where the installation's setting applies, 0 for no limit."""

    documents: int | None
    chunks: int | None
    queued: int | None
    tokens: int | None
    requests_per_minute: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantErased(Answered):
    """The deleted rows, by store and table, since the erasure was first requested; `remaining` is the result of a
    recount."""

    tenant_id: str
    erased: Mapping[str, int]
    remaining: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota(Answered):
    """The limit, null for none, and the current amount."""

    limit: int | None
    used: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUse(Answered):
    """The tenant's use of its quotas. `queued` counts documents that wait for a worker, `tokens` those embedded in this
    calendar month, `answer_bytes` the memory of queries and stored answers, whose limit falls as the memory of the
    installation fills."""

    documents: Quota
    chunks: Quota
    queued: Quota
    tokens: Quota
    answer_bytes: Quota


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditActor(Complete):
    """The actor: the key's id in the audit, its name and scopes, never the key. An empty id is the installation."""

    key_id: str = ""
    key_name: str = ""
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry(Complete):
    """One search or one write. `ids` holds the first hundred of `count`: the documents found or written."""

    audit_id: str
    at: datetime
    tenant_id: str
    action: str = field(
        metadata={"description": "search, ingest, delete, chunk_edit …: docs/security-and-audit.md lists them."}
    )
    actor: AuditActor = field(default_factory=AuditActor)
    request_id: str = ""
    namespaces: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    count: int = 0
    status: str = "succeeded"
    query_hash: str | None = None
    query_text: str | None = field(
        default=None, metadata={"description": "Only if the installation stores query texts."}
    )
    detail: Mapping[str, Any] = field(
        default_factory=dict,
        metadata={"description": "Of a search: channels, hits, source_share, degraded, latency_ms …"},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Key(Answered):
    """A key without its secret. `key_id` is its name in the audit. `last_used_at` is accurate to the minute.
    `replaced_by`: the key that it was rotated to. `principals`: those of its callers, besides `public`; `*` sees every
    document. `signs_tokens`: whether its owner can sign tokens of principals."""

    key_id: str
    name: str
    scopes: tuple[Literal["read", "write", "admin", "impersonate", "operator"], ...]
    state: Literal["active", "expired", "revoked"]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    replaced_by: str | None
    principals: tuple[str, ...]
    signs_tokens: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyWithSecret(Key, Complete):
    """A key and its value for `Authorization: Bearer`, and the secret to sign tokens with; both are shown this once."""

    api_key: str | None = field(default=None, repr=False, metadata={"json_schema_extra": absent_not_null})
    token_secret: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentKey(Answered):
    """The tenant and the scopes of this key, and the principals of this request: `*` sees every document."""

    tenant_id: str
    key_id: str
    name: str
    scopes: tuple[Literal["read", "write", "admin", "impersonate", "operator"], ...]
    principals: tuple[str, ...]
