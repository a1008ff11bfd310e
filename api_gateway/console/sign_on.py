"""Sign on at a provider of OpenID Connect (code flow with PKCE), where CHORDWISE_OIDC names one.

The browser keeps two cookies that no script reads: the state of a sign-on, signed, for ten minutes, and the name of the
session. With the second the console gets tokens, which it sends in place of an API key. No other route reads a cookie.
"""

import secrets
import time
from typing import Final
from urllib.parse import urlsplit

import structlog
from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from api_gateway.gateway import Gateway, gateway_of
from api_gateway.http.problems import Problem, instance_of
from api_gateway.http.responses import json_response
from pipeline.administration.manage_sessions import begin_session, end_session, token_of
from pipeline.errors import Misconfigured
from pipeline.outages import tolerate_outage
from pipeline.records import TenantId
from pipeline.setting_values import SignOn
from pipeline.settings import Settings
from pipeline.tenants.people import SESSION_S, STATE_S, TOKEN_S, role_of, session_of, signed_state, state_in
from pipeline.tenants.provider_client import ProviderClient, SignOnFailed

router = APIRouter(include_in_schema=False)

log = structlog.get_logger(__name__)

STATE_COOKIE: Final = "chordwise_sign_on"
SESSION_COOKIE: Final = "chordwise_session"
_NO_STORE: Final = {"Cache-Control": "no-store"}


def check(settings: Settings) -> None:
    """Raise Misconfigured where sign-on has no secret to sign tokens with."""
    if settings.oidc is not None and not (settings.secret_key and settings.secret_key.get_secret_value()):
        raise Misconfigured("CHORDWISE_OIDC needs CHORDWISE_SECRET_KEY, which signs the tokens of sessions")


@router.get("/console/sign-on")
async def start(request: Request) -> Response:
    """Send the browser to the provider. Raises Problem(404) where sign-on is off."""
    gateway, use, provider = _configured(request)
    state = {name: secrets.token_urlsafe(32) for name in ("state", "nonce", "verifier")}
    try:
        address = await provider.address(**state)
    except SignOnFailed as failed:
        return _back(use, failed)
    answer = RedirectResponse(address, status_code=303, headers=_NO_STORE)
    _set_cookie(answer, use, STATE_COOKIE, signed_state(state, _secret(gateway), now=time.time()), STATE_S)
    return answer


@router.get("/console/sign-on/callback")
async def finish(request: Request) -> Response:
    """Begin the session of the person whom the provider sends back, and show the console; or its sign-in page, with the
    reason. Raises Problem(404)."""
    gateway, use, provider = _configured(request)
    try:
        cookie = await _signed_on(request, gateway, use, provider)
    except SignOnFailed as failed:
        return _back(use, failed)
    answer = _back(use, None)
    _set_cookie(answer, use, SESSION_COOKIE, cookie, SESSION_S)
    return answer


@router.post("/console/sign-on/token")
async def token(request: Request) -> Response:
    """Return a token of the browser's session. Raises Problem: 404 where sign-on is off, 403 for a page of another site, 401
    without a session; and Unavailable."""
    gateway, use, _ = _configured(request)
    _require_own_page(request, use)
    cookie = request.cookies.get(SESSION_COOKIE, "")
    made = await gateway.run(token_of, TenantId(use.tenant), cookie, gateway.quick)
    if made is None:
        raise Problem(401, "session_ended", "This browser has no session, or it has ended: sign in again.")
    return json_response({"token": made, "expires_in": TOKEN_S}, headers=_NO_STORE)


@router.post("/console/sign-on/end")
async def end(request: Request) -> Response:
    """End the browser's session. Return the provider's address for signing out there too, null without one. Raises Problem
    404 and 403, and Unavailable."""
    gateway, use, provider = _configured(request)
    _require_own_page(request, use)
    cookie = request.cookies.get(SESSION_COOKIE, "")
    await gateway.run(end_session, TenantId(use.tenant), cookie, gateway.quick)
    answer = json_response({"address": await provider.end_address()}, headers=_NO_STORE)
    _set_cookie(answer, use, SESSION_COOKIE, "", 0)
    return answer


async def _signed_on(request: Request, gateway: Gateway, use: SignOn, provider: ProviderClient) -> str:
    """Return the cookie of a new session. Raises SignOnFailed."""
    sent, state = request.query_params, state_in(request.cookies.get(STATE_COOKIE, ""), _secret(gateway))
    if "error" in sent:  # some providers forget the state then
        raise SignOnFailed("refused", sent["error"][:64])
    returned = sent.get("state", "")
    if state is None or not secrets.compare_digest(returned.encode(), state["state"].encode()):
        raise SignOnFailed("other_browser")
    if sent.get("iss", use.issuer) != use.issuer or "code" not in sent:
        raise SignOnFailed("not_valid", "the answer is of another issuer, or has no code")
    claims = await provider.claims(sent["code"], nonce=state["nonce"], verifier=state["verifier"])
    role = role_of(claims, use.roles)
    if role is None:
        raise SignOnFailed("no_role")
    session = session_of(claims, role, issuer=use.issuer, groups=use.groups)
    with tolerate_outage(log.warning, "session_not_stored"):
        cookie = await gateway.run(begin_session, TenantId(use.tenant), session, gateway.quick)
        if cookie is None:
            raise SignOnFailed("no_tenant")
        log.info("signed_on", tenant_id=use.tenant, person=session["id"], role=role)
        return cookie
    raise SignOnFailed("stores_away")


def _configured(request: Request) -> tuple[Gateway, SignOn, ProviderClient]:
    gateway = gateway_of(request)
    if gateway.settings.oidc is None or gateway.provider is None:
        raise Problem(404, "route_not_found", f"Nothing exists at {instance_of(request.scope)}.")
    return gateway, gateway.settings.oidc, gateway.provider


def _require_own_page(request: Request, use: SignOn) -> None:
    """Raise Problem(403) unless a page of this gateway sent the request: browsers name the page's site in `Origin`."""
    parts = urlsplit(use.url)
    if request.headers.get("origin") != f"{parts.scheme}://{parts.netloc}":
        raise Problem(403, "sign_in_refused", f"Only the console at {use.url}/console/ may use a session.")


def _secret(gateway: Gateway) -> str:
    key = gateway.settings.secret_key
    return "" if key is None else key.get_secret_value()


def _back(use: SignOn, failed: SignOnFailed | None) -> Response:
    """Send the browser to the console, and end the state of its sign-on."""
    path = "signed-on"
    if failed is not None:
        log.warning("sign_on_failed", tenant_id=use.tenant, reason=failed.reason, detail=failed.detail)
        path = f"signed-on/{failed.reason}"
    answer = RedirectResponse(f"{use.url}/console/#/{path}", status_code=303, headers=_NO_STORE)
    _set_cookie(answer, use, STATE_COOKIE, "", 0)
    return answer


def _set_cookie(answer: Response, use: SignOn, name: str, value: str, seconds: int) -> None:
    """Set a cookie for the routes of this file alone; with 0 ``seconds``, delete it."""
    parts = urlsplit(use.url)
    answer.set_cookie(
        name,
        value,
        max_age=seconds,
        path=f"{parts.path}/console/sign-on",
        secure=parts.scheme == "https",
        httponly=True,
        samesite="lax",
    )
