"""API keys: look up the tenant and the scopes of a key; limit wrong keys by client address."""

import asyncio
import hmac
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv6Address, ip_address
from typing import Annotated, Any, Final, Literal
from urllib.parse import unquote

import structlog
from cachetools import FIFOCache
from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from api_gateway.http.metrics import WRONG_KEYS
from api_gateway.http.operations import refuse_unknown
from api_gateway.http.problems import Problem
from api_gateway.live.stale_cache import StaleCache
from chordwise.contract.tenant import AuditActor
from pipeline.filters.readers import EVERY_DOCUMENT, LONGEST_PRINCIPAL, MOST_PRINCIPALS, principals_of
from pipeline.outages import OutagePause
from pipeline.outbound.addresses import Network, is_within
from pipeline.records import TenantId
from pipeline.settings import Settings
from pipeline.tenants.accounts import IMPERSONATE, OPERATOR, Principal, hashed, tenant_of
from pipeline.tenants.audit import act_as
from pipeline.tenants.caller_tokens import is_token, key_named
from pipeline.tenants.request_buckets import BucketReply, LocalBuckets, Rate

log = structlog.get_logger(__name__)

_LOOK_UPS: Final = 4  # at a time, of keys this process has not verified, from one address beyond the limit
_HELD_S: Final = 1.0  # delay of the refusal of such a key
_MOST_HELD: Final = 256  # refusals delayed at the same time; further ones are sent at once
_MOST_ADDRESSES: Final = 10_000
_WITHOUT_REDIS_S: Final = 2.0  # pause before asking Redis again after it did not answer

# No tenant can have this name; actions with the installation's own key are recorded under it.
INSTALLATION = TenantId("*")

# A revoked key, or a key of a disabled tenant, works at most this long; a new key tried too early is refused as long.
FRESH_S = 2.0

# `api_key_of` reads the header itself; this describes it in OpenAPI.
_BEARER = HTTPBearer(
    auto_error=False, scheme_name="api_key", description="An API key of the form `cw_<tenant>_<secret>`."
)


def authorities(dependant: Dependant) -> Iterator[Any]:
    """Yield the authentication dependencies of a route."""
    for dependency in dependant.dependencies:
        if isinstance(dependency.call, Requires) or dependency.call is require_operator:
            yield dependency.call
        yield from authorities(dependency)


async def owner_of(request: Request) -> TenantId | None:
    """Return a request's owner, or None for a public route. Raises the route's Problem for a refused key, and
    Unavailable."""
    dependant = getattr(request.scope.get("route"), "dependant", None)
    owner: TenantId | None = None
    for authority in [] if dependant is None else authorities(dependant):
        caller = await (authority(request, None) if isinstance(authority, Requires) else authority(request))
        owner = caller.tenant_id if isinstance(caller, Principal) else INSTALLATION
    return owner


class Keys:
    """A short-lived cache of verified keys, so that a request needs no database query. Holds hashes only."""

    def __init__(
        self,
        look_up: Callable[[str], Awaitable[Principal | None]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look_up = look_up
        self._principals: StaleCache[tuple[TenantId, bytes], Principal | None] = StaleCache(
            "key", fresh_s=FRESH_S, clock=clock
        )
        self.is_away = self._principals.is_away  # whether the last read of MySQL timed out

    async def principal(self, api_key: str) -> Principal | None:
        """Return the key's principal, or None for an unknown key. Raises Unavailable if MySQL is away and the key was
        not verified recently."""
        key = _cached_as(api_key)
        if key is None:
            return None
        principal = await self._principals.of(key, lambda: self._look_up(api_key))
        has_ended = principal is not None and principal.ends_at is not None and principal.ends_at < time.time()
        return None if has_ended else principal

    def verified_tenant(self, api_key: str) -> TenantId | None:
        """Return the tenant of a key that this process has verified and not seen refused since, else None."""
        key = _cached_as(api_key)
        principal = None if key is None else self._principals.last(key)
        return None if principal is None else principal.tenant_id


def _cached_as(api_key: str) -> tuple[TenantId, bytes] | None:
    named = key_named(api_key) if is_token(api_key) else None
    tenant_id = tenant_of(api_key) if named is None else named[0]
    return None if tenant_id is None else (tenant_id, hashed(api_key))


def api_key_of(headers: Mapping[str, str]) -> str:
    """Return the key in an Authorization header. Raises Problem 401."""
    scheme, _, key = headers.get("authorization", "").strip().partition(" ")
    if not scheme:
        raise unauthenticated("missing_api_key", "The request has no Authorization header with an API key.")
    if scheme.lower() != "bearer" or not key.strip():
        raise unauthenticated(
            "malformed_authorization", "The Authorization header is not of the form: Bearer <api key>."
        )
    return key.strip()


def unauthenticated(code: str, detail: str) -> Problem:
    """Return Problem(401) with a WWW-Authenticate header."""
    return Problem(401, code, detail, headers={"WWW-Authenticate": "Bearer"})


_NO_TENANT: Final = (
    "CHORDWISE_ADMIN_KEY belongs to no tenant; `chordwise-server key ops --operator` makes an operator's key that does, and"
    " `make up` prints a link that signs in with one."
)


# How a route treats callers who may not read every document: it filters its answer, admits only writers, or refuses them.
LimitedCallers = Literal["filtered", "writers", "refused"]
PRINCIPALS: Final = "chordwise-principals"  # the header by which a key with the scope `impersonate` names its caller's


class Requires:
    """A dependency that returns the request's principal if its key has the scope and its query parameters are known."""

    def __init__(self, scope: str, *, limited: LimitedCallers = "filtered") -> None:
        self._scope = scope
        self._limited = limited

    async def __call__(self, request: Request, _: HTTPAuthorizationCredentials | None = Depends(_BEARER)) -> Principal:
        """Return the principal of the request's key. Raises Problem 401 or 403."""
        gateway = request.app.state.gateway
        keys: Keys = gateway.keys
        api_key = api_key_of(request.headers)
        principal = await keys.principal(api_key)
        if principal is None:
            of_nobody = is_admin_key(api_key, gateway.settings)
            detail = _NO_TENANT if of_nobody else "The API key is not known, it has ended, or its tenant is disabled."
            detail = _NO_TOKEN if is_token(api_key) else detail
            raise unauthenticated("invalid_api_key", detail)
        structlog.contextvars.bind_contextvars(tenant_id=principal.tenant_id)
        act_as(principal.actor, request_id=request.state.request_id)
        require_scope(principal, self._scope)
        if (named := request.headers.get(PRINCIPALS)) is not None:
            principal = impersonated(principal, [unquote(name.strip()) for name in named.split(",") if name.strip()])
        admitted = ("filtered", "writers") if "write" in principal.scopes else ("filtered",)
        if principal.is_limited and self._limited not in admitted:
            raise Problem(403, "insufficient_scope", _OF_ALL)
        refuse_unknown(request)
        request.state.principal = principal
        return principal


def impersonated(principal: Principal, names: Sequence[str]) -> Principal:
    """Return the caller with the principals that a request names. Raises Problem 403 without the scope `impersonate`,
    and 422."""
    require_scope(principal, IMPERSONATE)
    if EVERY_DOCUMENT in names or len(names) > MOST_PRINCIPALS or any(len(name) > LONGEST_PRINCIPAL for name in names):
        detail = f"Principals are up to {MOST_PRINCIPALS} names of up to {LONGEST_PRINCIPAL} characters, without `*`."
        raise Problem(422, "invalid_request", detail)
    return replace(principal, reads_as=principals_of(names))


_NO_TOKEN: Final = (
    "The token has ended, or no working API key of the tenant verifies it: its audience is"
    " `chordwise:<tenant>:<key id>`, it has `sub` and `exp`, and it ends within a day."
)
_OF_ALL: Final = (
    "This route tells of every document of the tenant, some of which this key may not read: use a key with the"
    " principal `*`."
)

Reader = Annotated[Principal, Depends(Requires("read"))]
Writer = Annotated[Principal, Depends(Requires("write"))]
Admin = Annotated[Principal, Depends(Requires("admin"))]


async def require_operator(request: Request, _: HTTPAuthorizationCredentials | None = Depends(_BEARER)) -> None:
    """Raise Problem(401) or Problem(403) unless the request carries the installation's own key or an API key with the
    scope ``operator``, which can only be created in a shell on the installation."""
    api_key = api_key_of(request.headers)
    if not is_admin_key(api_key, request.app.state.gateway.settings):
        await Requires(OPERATOR)(request)
    else:
        act_as(AuditActor(key_name="CHORDWISE_ADMIN_KEY", scopes=(OPERATOR,)), request_id=request.state.request_id)
        refuse_unknown(request)


def is_admin_key(api_key: str, use: Settings) -> bool:
    """Return whether a key is the installation's own key."""
    expected = "" if use.admin_key is None else use.admin_key.get_secret_value()
    return bool(expected) and hmac.compare_digest(api_key.encode("utf-8", "surrogatepass"), expected.encode())


def require_scope(principal: Principal, scope: str) -> None:
    """Raise Problem 403 if the key may not do this."""
    if scope not in principal.scopes:
        raise Problem(403, "insufficient_scope", f"The API key does not have the scope {scope}.")


def require_same_tenant(principal: Principal, claimed: object) -> None:
    """Raise Problem(403) if a body names another tenant than its key. Validation handles a value that is not a string."""
    if isinstance(claimed, str) and claimed != principal.tenant_id:
        errors = [{"pointer": "/tenant_id", "detail": "is not the tenant of the API key"}]
        raise Problem(403, "tenant_mismatch", "The tenant_id in the body is not the one of the API key.", errors=errors)


WRONG_KEYS_RATE: Final = Rate(per_minute=30, burst=60)  # of one address


class WrongKeys:
    """A counter of wrong keys by client address, in Redis, or in this process while Redis is unavailable: 401 within the
    limit, then 429 after a delay.

    A correct key is always served. While an address exceeds the limit, only a few keys at a time from there that this
    process has not verified before are looked up, so that guessing cannot occupy the database.
    """

    def __init__(
        self,
        take: Callable[[str, Rate], Awaitable[BucketReply]],
        rate: Rate,
        *,
        proxies: Sequence[Network] = (),
        held_s: float = _HELD_S,
    ) -> None:
        """``take`` takes one token from a bucket that all gateways share, by name. It raises Unavailable."""
        self._take_shared = take
        self._rate = rate
        self._proxies = tuple(proxies)
        self._held_s = held_s
        self._local = LocalBuckets(most=_MOST_ADDRESSES)
        # Until when an address is beyond the limit, by the clock, and the turns of its look-ups.
        self._excesses: FIFOCache[str, tuple[float, asyncio.Semaphore]] = FIFOCache(_MOST_ADDRESSES)
        self._held = 0
        self._redis_pause = OutagePause(_WITHOUT_REDIS_S)

    def address_of(self, scope: Mapping[str, Any], headers: Mapping[str, str]) -> str:
        """Return the address of the client; for IPv6 its /64 network, because one customer has all of that.

        Behind a proxy that the settings trust, return the last entry of X-Forwarded-For that is not such a proxy.
        """
        client = scope.get("client")
        peer = str(client[0]) if client else ""
        if self._proxies and is_within(peer, self._proxies):
            for entry in reversed(headers.get("x-forwarded-for", "").split(",")):
                if not _is_address(entry.strip()):
                    break
                peer = entry.strip()
                if not is_within(peer, self._proxies):
                    break
        return _network(peer)

    def turn(self, scope: Mapping[str, Any], headers: Mapping[str, str]) -> asyncio.Semaphore | None:
        """Return the semaphore for key look-ups from this client if its address exceeds the limit, else None."""
        if not self._excesses:
            return None
        address = self.address_of(scope, headers)
        excess = self._excesses.get(address)
        if excess is None:
            return None
        until, turns = excess
        if time.monotonic() < until:
            return turns
        del self._excesses[address]
        return None

    async def refusal(self, address: str) -> Problem | None:
        """Count one wrong key. Return None within the address's limit; beyond it wait, then return the Problem."""
        if not self._rate.per_minute:
            return None
        allowance = await self._take(address)
        WRONG_KEYS.labels("refused" if allowance.admitted else "limited").inc()
        if allowance.admitted:
            return None
        excess = self._excesses.get(address)
        turns = excess[1] if excess else asyncio.Semaphore(_LOOK_UPS)
        self._excesses[address] = time.monotonic() + max(allowance.wait_s, 1.0), turns
        log.info("wrong_keys_limited", client=address)
        if self._held < _MOST_HELD:
            self._held += 1
            try:
                await asyncio.sleep(self._held_s)
            finally:
                self._held -= 1
        most = self._rate.per_minute
        limit = {"name": "wrong_keys_per_minute", "limit": most}
        detail = f"This address sends wrong API keys, more than {most} a minute; a correct one is served."
        headers = {"Retry-After": str(max(1, math.ceil(allowance.wait_s))), "WWW-Authenticate": "Bearer"}
        return Problem(429, "too_many_wrong_keys", detail, headers=headers, extensions={"limit": limit})

    async def _take(self, address: str) -> BucketReply:
        if self._redis_pause.is_over:
            with self._redis_pause.after_outage(log.warning, "wrong_keys_counted_locally"):
                return await self._take_shared(f"chordwise:wrong-keys:{address}", self._rate)
        return self._local.take(address, self._rate)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _network(peer: str) -> str:
    try:
        address = ip_address(peer)
    except ValueError:
        return "unknown"
    if not isinstance(address, IPv6Address):
        return str(address)
    return str(address.ipv4_mapped or f"{IPv6Address(int(address) >> 64 << 64)}/64")
