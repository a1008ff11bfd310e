"""Tenants and their own quotas, for the operator; the API keys, the usage and the audit of a tenant."""

import secrets
import time
from dataclasses import asdict, replace
from datetime import date, datetime
from typing import Any, Final

import structlog

from chordwise.contract.job import UsageRow
from chordwise.contract.tenant import OwnQuotasView, TenantView
from pipeline.administration.call_store import call_store
from pipeline.administration.manage_sessions import person_of
from pipeline.database.encryption import SecretCipher
from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import Rejected
from pipeline.outages import tolerate_outage
from pipeline.outbound.fetch_client import Fetcher
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.tenants.accounts import ApiKey, Principal, tenant_of
from pipeline.tenants.audit_store import Audit
from pipeline.tenants.caller_tokens import (
    JWKS_FRESH_S,
    SIGN_ON,
    caller_of,
    has_key,
    is_token,
    key_id_in,
    key_named,
    public_keys,
)
from pipeline.tenants.quota_store import QuotaColumns
from pipeline.tenants.tenant_store import ApiKeys, Tenants, tenants_page
from pipeline.tenants.usage import UsageKey
from pipeline.tenants.usage_store import Usage

log = structlog.get_logger(__name__)

_JWKS_S: Final = 5.0
_JWKS_BYTES: Final = 256 * 1024
_ASKED_AGAIN_AFTER_S: Final = 30.0  # after a token names an unknown key

find_tenant = call_store(Tenants, Tenants.find)
admit_tenant = call_store(Tenants, Tenants.admit)
list_audit = call_store(Audit, Audit.page)
list_keys = call_store(ApiKeys, ApiKeys.page)
find_key = call_store(ApiKeys, ApiKeys.one)
rotate_key = call_store(ApiKeys, ApiKeys.rotate)
revoke_key = call_store(ApiKeys, ApiKeys.revoke)
own_quotas = call_store(QuotaColumns, QuotaColumns.read)
own_requests_per_minute = call_store(QuotaColumns, QuotaColumns.requests_per_minute)


def create_tenant(tenant_id: TenantId, name: str, quotas: OwnQuotasView | None, use: Resources) -> TenantView | None:
    """Create a tenant, with quotas of its own if any are given; None if the id is taken."""
    with unit_of_work(use.mysql) as work:
        tenants = Tenants(work.connection, tenant_id)
        if not tenants.create(name):
            return None
        Audit(work.connection, tenant_id).wrote("tenant_create", ids=[tenant_id])
        if quotas is not None:
            QuotaColumns(work.connection, tenant_id).write(quotas)
        return tenants.find()


def list_tenants(after: str | None, limit: int, use: Resources) -> list[TenantView]:
    """Return the tenants of the installation that follow the id ``after``, by id."""
    with unit_of_work(use.mysql) as work:
        return tenants_page(work.connection, after=after, limit=limit)


def principal_of(api_key: str, use: Resources) -> Principal | None:
    """Return the principal that a key or a token stands for, or None if it is malformed, unknown or has ended."""
    if is_token(api_key):
        return _principal_of_token(api_key, use)
    tenant_id = tenant_of(api_key)
    if tenant_id is None:
        return None
    with unit_of_work(use.mysql) as work:
        principal, is_use_due = Tenants(work.connection, tenant_id).principal(api_key)
    if is_use_due:
        # A server that takes no writes can still say whose key it is.
        with tolerate_outage(log.info, "key_use_not_recorded"), unit_of_work(use.mysql) as work:
            Tenants(work.connection, tenant_id).note_use(api_key)
    return principal


def _principal_of_token(token: str, use: Resources) -> Principal | None:
    named = key_named(token)
    if named is None:
        return None
    tenant_id, key_id = named
    if key_id == SIGN_ON:
        return person_of(token, tenant_id, use)
    with unit_of_work(use.mysql) as work:
        signer = Tenants(work.connection, tenant_id).signer(key_id)
    if signer is None:
        return None
    owner, encrypted = signer
    cipher, row = SecretCipher(use.settings.secret_key), _row(tenant_id)
    key = cipher.open(encrypted, belongs_to=row)
    if "jwks_url" in key and (not has_key(key, key_id_in(token)) or time.time() > key["read_at"] + JWKS_FRESH_S):
        stored, key = key, _renewed(key, use)
        if key != stored:  # not for each token that names an unknown key
            with tolerate_outage(log.info, "jwks_not_kept"), unit_of_work(use.mysql) as work:
                written = cipher.seal(key, belongs_to=row)
                Tenants(work.connection, tenant_id).replace_token_key(key_id, written)
    return caller_of(token, key, owner)


def _renewed(key: dict[str, Any], use: Resources) -> dict[str, Any]:
    """Return the key with the present set of its address, unless that was asked a moment ago; the former set if the
    address gives none."""
    if time.time() < key["asked_at"] + _ASKED_AGAIN_AFTER_S:
        return key
    key = {**key, "asked_at": time.time()}
    with tolerate_outage(log.warning, "jwks_not_read", also=(Rejected,)):
        return {**key, **_read_keys(key["jwks_url"], use)}
    return key


def _read_keys(jwks_url: str, use: Resources) -> dict[str, Any]:
    fetcher = Fetcher(timeout_s=_JWKS_S, max_bytes=_JWKS_BYTES, permitted=use.settings.fetch_networks)
    return {"jwks": public_keys(fetcher.fetch(jwks_url).body), "read_at": time.time()}


def _row(tenant_id: TenantId) -> str:
    return f"api_keys/{tenant_id}"


def issue_key(
    tenant_id: TenantId,
    use: Resources,
    name: str,
    scopes: tuple[str, ...],
    *,
    expires_at: datetime | None = None,
    principals: tuple[str, ...] = (),
    signs_tokens: bool = False,
    jwks_url: str | None = None,
) -> ApiKey:
    """Create a key; with ``signs_tokens`` or ``jwks_url`` its owner may sign tokens of principals (`tenants.caller_tokens`).
    Return it with its secrets. Raises TooManyKeys, and Rejected or Unavailable if the address gives no keys."""
    secret = secrets.token_hex(32) if signs_tokens else None
    key: dict[str, Any] | None = None if secret is None else {"secret": secret}
    if jwks_url is not None:
        key = {"jwks_url": jwks_url, "asked_at": time.time(), **_read_keys(jwks_url, use)}
    encrypted = None
    if key is not None:
        encrypted = SecretCipher(use.settings.secret_key).seal(key, belongs_to=_row(tenant_id))
    with unit_of_work(use.mysql) as work:
        keys = ApiKeys(work.connection, tenant_id)
        issued = keys.issue(name, scopes, expires_at=expires_at, principals=principals, token_key=encrypted)
    return replace(issued, token_secret=secret)


def set_own_quotas(tenant_id: TenantId, quotas: OwnQuotasView, use: Resources) -> None:
    """Replace the quotas of this tenant."""
    with unit_of_work(use.mysql) as work:
        QuotaColumns(work.connection, tenant_id).write(quotas)
        Audit(work.connection, tenant_id).wrote("tenant_quotas", ids=[tenant_id], **asdict(quotas))


def usage_between(
    tenant_id: TenantId, first: date, last: date, *, by: UsageKey, after: str | None, limit: int, use: Resources
) -> tuple[UsageRow, list[UsageRow]]:
    """Return what embedding cost in some days, both included: the total, and the rows that follow the key ``after``."""
    with unit_of_work(use.mysql) as work:
        usage = Usage(work.connection, tenant_id)
        rows = usage.between(first, last, by=by, after=after, limit=limit)
        return usage.total(first, last), rows
