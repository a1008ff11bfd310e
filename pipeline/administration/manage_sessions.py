"""Sessions of people who signed in at a provider: begin and end one, make its tokens, read the caller of a token.

A session is a key of Redis under the digest of the browser's cookie; it ends after eight hours, or with Redis.
"""

import hashlib
import secrets
import time
from collections.abc import Mapping
from typing import Any

import orjson

from pipeline.database.engines import redis_errors
from pipeline.database.unit_of_work import reading
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.tenants.accounts import Principal
from pipeline.tenants.people import SESSION_S, principal_in, session_named, session_token
from pipeline.tenants.tenant_store import Tenants


def begin_session(tenant_id: TenantId, session: Mapping[str, Any], use: Resources) -> str | None:
    """Store a session and return the value of its cookie; None if the tenant does not exist or is disabled. Raises
    StoreUnavailable."""
    if _restricts(tenant_id, use) is None:
        return None
    cookie = secrets.token_urlsafe(32)
    with redis_errors():
        use.redis.set(_key(tenant_id, _name(cookie)), orjson.dumps(session), ex=SESSION_S)
    return cookie


def end_session(tenant_id: TenantId, cookie: str, use: Resources) -> None:
    """End the session of a cookie, and its tokens with it. Raises StoreUnavailable."""
    with redis_errors():
        use.redis.delete(_key(tenant_id, _name(cookie)))


def token_of(tenant_id: TenantId, cookie: str, use: Resources) -> str | None:
    """Return a new token for the session of a cookie, None without one. Raises StoreUnavailable."""
    name = _name(cookie)
    with redis_errors():
        exists = use.redis.exists(_key(tenant_id, name))
    return session_token(tenant_id, name, _secret(use), now=time.time()) if exists else None


def person_of(token: str, tenant_id: TenantId, use: Resources) -> Principal | None:
    """Return the caller whom a session's token stands for; None if people do not sign on to this tenant, for a token that is
    not valid, a session that has ended, and a tenant that is disabled. Raises StoreUnavailable."""
    sign_on = use.settings.oidc
    named = session_named(token, tenant_id, _secret(use))
    if named is None or sign_on is None or sign_on.tenant != tenant_id:
        return None
    with redis_errors():
        stored = use.redis.get(_key(tenant_id, named[0]))
    restricts = None if stored is None else _restricts(tenant_id, use)
    if not isinstance(stored, bytes) or restricts is None:
        return None
    return principal_in(orjson.loads(stored), tenant_id, has_restricted=restricts, ends_at=named[1])


def _restricts(tenant_id: TenantId, use: Resources) -> bool | None:
    with reading(use.mysql) as connection:
        return Tenants(connection, tenant_id).restricts()


def _secret(use: Resources) -> str:
    key = use.settings.secret_key
    return "" if key is None else key.get_secret_value()


def _name(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("utf-8", "surrogatepass")).hexdigest()


def _key(tenant_id: TenantId, name: str) -> str:
    return f"{tenant_id}:session:{name}"
