"""From an API key to the tenant it belongs to and what it may do."""

from __future__ import annotations

import hmac
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated

import structlog
from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from api_gateway.http.parameters import refuse_unknown
from api_gateway.http.problems import Problem
from api_gateway.live.refreshing_cache import Remembered
from pipeline.database.unit_of_work import unit_of_work
from pipeline.records import Actor
from pipeline.resources import Resources
from pipeline.settings import Settings
from pipeline.tenants.audit_store import act_as
from pipeline.tenants.tenant_store import OPERATOR, Principal, Tenants, hashed, tenant_of

# A revoked key, or one of a disabled tenant, works for at most this long; and a new one is refused so, if tried too
# early.
FRESH_S = 2.0

# Read by hand in `api_key_of`; this describes it in OpenAPI.
_BEARER = HTTPBearer(
    auto_error=False, scheme_name="api_key", description="An API key of the form `cw_<tenant>_<secret>`."
)


class Keys:
    """Verified keys, kept for a moment, so that a request does not cost a database query. Hashes only."""

    def __init__(
        self,
        look_up: Callable[[str], Awaitable[Principal | None]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look_up = look_up
        self._known: Remembered[bytes, Principal | None] = Remembered("key", fresh_s=FRESH_S, clock=clock)
        self.is_away = self._known.is_away  # whether MySQL was lately waited for in vain

    async def principal(self, api_key: str) -> Principal | None:
        """Return whose key it is, or None. Raises Unavailable if MySQL is away and the key was not verified lately."""
        if tenant_of(api_key) is None:
            return None
        return await self._known.of(hashed(api_key), lambda: self._look_up(api_key))

    def is_verified(self, api_key: str) -> bool:
        """Return whether this process ever verified the key and has not seen it refused since."""
        return self._known.last(hashed(api_key)) is not None


def look_up(api_key: str, use: Resources) -> Principal | None:
    """Ask MySQL who a key stands for. Blocking. Raises Unavailable."""
    tenant_id = tenant_of(api_key)
    if tenant_id is None:
        return None
    with unit_of_work(use.mysql) as work:
        return Tenants(work.connection, tenant_id).principal(api_key)


def api_key_of(headers: Mapping[str, str]) -> str:
    """The key in an Authorization header. Raises Problem 401."""
    scheme, _, key = headers.get("authorization", "").strip().partition(" ")
    if not scheme:
        raise unauthenticated("missing_api_key", "The request has no Authorization header with an API key.")
    if scheme.lower() != "bearer" or not key.strip():
        raise unauthenticated(
            "malformed_authorization", "The Authorization header is not of the form: Bearer <api key>."
        )
    return key.strip()


def unauthenticated(code: str, detail: str) -> Problem:
    """401, saying how to authenticate."""
    return Problem(401, code, detail, headers={"WWW-Authenticate": "Bearer"})


class Requires:
    """A dependency: the request's principal, if its key has the scope and its query parameters are known."""

    def __init__(self, scope: str) -> None:
        self._scope = scope

    async def __call__(self, request: Request, _: HTTPAuthorizationCredentials | None = Depends(_BEARER)) -> Principal:
        keys: Keys = request.app.state.gateway.keys
        principal = await keys.principal(api_key_of(request.headers))
        if principal is None:
            detail = "The API key is not known, it has ended, or its tenant is disabled."
            raise unauthenticated("invalid_api_key", detail)
        structlog.contextvars.bind_contextvars(tenant_id=principal.tenant_id)
        act_as(principal.actor, request_id=request.state.request_id)
        require_scope(principal, self._scope)
        refuse_unknown(request)
        return principal


Reader = Annotated[Principal, Depends(Requires("read"))]
Writer = Annotated[Principal, Depends(Requires("write"))]
Admin = Annotated[Principal, Depends(Requires("admin"))]


async def require_operator(request: Request, _: HTTPAuthorizationCredentials | None = Depends(_BEARER)) -> None:
    """A dependency. Raises Problem 401 or 403 unless the request carries the installation's own key, or an API key with
    the scope ``operator``, which only a shell on the installation can make."""
    given = api_key_of(request.headers)
    if not is_admin_key(given, request.app.state.gateway.settings):
        await Requires(OPERATOR)(request)
    else:
        act_as(Actor(key_name="CHORDWISE_ADMIN_KEY", scopes=(OPERATOR,)), request_id=request.state.request_id)
        refuse_unknown(request)


def is_admin_key(given: str, use: Settings) -> bool:
    """Return whether ``given`` is the installation's own key."""
    expected = "" if use.admin_key is None else use.admin_key.get_secret_value()
    return bool(expected) and hmac.compare_digest(given.encode("utf-8", "surrogatepass"), expected.encode())


def require_scope(principal: Principal, scope: str) -> None:
    """Raises Problem 403 if the key may not do this."""
    if scope not in principal.scopes:
        raise Problem(403, "insufficient_scope", f"The API key does not have the scope {scope}.")


def require_same_tenant(principal: Principal, claimed: object) -> None:
    """Raises Problem 403 if a body names another tenant than its key; what is no string is left to validation."""
    if isinstance(claimed, str) and claimed != principal.tenant_id:
        errors = [{"pointer": "/tenant_id", "detail": "is not the tenant of the API key"}]
        raise Problem(403, "tenant_mismatch", "The tenant_id in the body is not the one of the API key.", errors=errors)
