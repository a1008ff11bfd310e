"""`Idempotency-Key`: a POST that is sent again is answered again and not done again.

Two parts, wired once in `app.create_app`. `IdempotentPosts` stands around the routes: it hashes the body while the route
reads it, and keeps the answer before it leaves. `claim_key` is a dependency of every route and so knows which one it is:
it claims the key, or ends the request with the answer that was kept.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import re
import uuid
import zlib
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import orjson
import structlog
from fastapi import Request
from pydantic import SecretStr
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from api_gateway.gateway import Gateway, gateway_of
from api_gateway.http.authority import owner_of
from api_gateway.http.bodies import limited
from api_gateway.http.capture import Capture, Captured
from api_gateway.http.fingerprints import FingerprintingReceive
from api_gateway.http.problems import Problem
from pipeline.database.engines import Conflict
from pipeline.database.sealing import Sealer
from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import Unavailable
from pipeline.records import JobId, TenantId
from pipeline.tenants.idempotency_store import Answered, Claimed, IdempotencyKeys, Running

log = structlog.get_logger(__name__)

MOST_ANSWER_BYTES: Final = 4 * 1024 * 1024  # a larger answer is sent and not kept; its request may be done again
REPLAYED: Final = (b"idempotency-replayed", b"true")
_KEY = re.compile(r'"([\x20\x21\x23-\x5b\x5d-\x7e]{1,255})"|([\x21\x23-\x7e]{1,255})')
_ATTEMPT = "idempotent_attempt"
_TRIES = 3
_MOST_LEFT_BYTES, _LEFT_S = 64 * 1024, 1.0

# Whoever sends the same again gets the same again. All other refusals may be different a moment later, and as nothing
# was made, nothing can be made twice: those free the key. A failure lets it go.
_KEPT_REFUSALS = frozenset({400, 413, 415, 422})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claim:
    """A key that this request holds."""

    owner: TenantId
    digest: bytes
    claimed: Claimed
    sealer: Sealer


class Replay(Exception):
    """The request was answered before; this is the answer."""

    def __init__(self, answer: Captured) -> None:
        super().__init__("answered before")
        self.answer = answer

    def response(self) -> Response:
        """The answer as it was, and a header that says so."""
        response = Response(self.answer.body, status_code=self.answer.status)
        response.raw_headers = list(self.answer.headers)
        return response


class _Attempt:
    """One request with a key."""

    def __init__(self, key: str, receive: FingerprintingReceive) -> None:
        self.key = key
        self.receive = receive
        self.claim: _Claim | None = None


class IdempotentPosts:
    """Keeps the answers of POST requests that have a key. Plain ASGI."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        values = [value for name, value in scope["headers"] if name == b"idempotency-key"]
        if not values:
            await self._app(scope, receive, send)
            return
        try:
            key = key_of([value.decode("latin-1") for value in values])
        except Problem as problem:
            await problem.response(scope)(scope, receive, send)
            return
        await self._do_once(key, scope, receive, send)

    async def _do_once(self, key: str, scope: Scope, receive: Receive, send: Send) -> None:
        target = (scope.get("raw_path") or b"") + b"?" + scope.get("query_string", b"")
        content_type = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
        hashing = FingerprintingReceive(receive, target=target, content_type=content_type.decode("latin-1"))
        attempt = _Attempt(key, hashing)
        scope.setdefault("state", {})[_ATTEMPT] = attempt
        capture = Capture(send, limit=MOST_ANSWER_BYTES)
        gateway: Gateway = scope["app"].state.gateway
        renewing = asyncio.ensure_future(_renew(attempt, gateway))
        whole = cancelled = False
        try:
            await self._app(scope, hashing, capture)
            whole = True
        except asyncio.CancelledError:
            cancelled = True  # whatever it did may go on in a thread: the lease has to run out
            raise
        finally:
            renewing.cancel()
            if not cancelled:
                await _settle(attempt, capture.answer if whole else None, gateway)
        await capture.let_go()


async def claim_key(request: Request) -> None:
    """A dependency of every route. Raises Replay; Problem 409 while the same key is at work and 422 if it stood for
    something else; whatever the route itself says to one who may not use it; and Unavailable."""
    attempt: _Attempt | None = request.scope.get("state", {}).get(_ATTEMPT)
    if attempt is None:
        return
    owner = await owner_of(request)
    if owner is None:
        return
    gateway = gateway_of(request)
    template = getattr(request.scope.get("route"), "path", request.url.path)
    digest = hashlib.sha256(orjson.dumps([request.method, template, attempt.key])).digest()
    sealer = Sealer(_secret(attempt.key, gateway))
    found = await gateway.run(_look, owner, digest, gateway)
    if isinstance(found, Claimed):
        attempt.claim = _Claim(owner=owner, digest=digest, claimed=found, sealer=sealer)
        return
    if isinstance(found, Running):
        headers = {"Retry-After": str(max(1, min(5, math.ceil(found.lease_left_s))))}
        detail = "A request with this Idempotency-Key is being done; ask again for its answer."
        raise Problem(409, "idempotency_key_in_use", detail, headers=headers)
    await _read_all(request, attempt.receive, gateway.settings.max_body_bytes)
    if attempt.receive.value != found.fingerprint:
        detail = "This Idempotency-Key was used for another request; a new request takes a new key."
        raise Problem(422, "idempotency_key_reused", detail)
    raise Replay(_unpacked(found, sealer, owner, digest))


def work_id(request: Request) -> JobId | None:
    """Return the job id that every attempt with this key shares, None without a key. Call after the body was read."""
    attempt: _Attempt | None = request.scope.get("state", {}).get(_ATTEMPT)
    if attempt is None or attempt.claim is None or not attempt.receive.complete:
        return None
    return JobId(str(uuid.uuid5(uuid.UUID(attempt.claim.claimed.work_id), attempt.receive.value.hex())))


def key_of(values: list[str]) -> str:
    """The key in the header, in quotation marks or without. Raises Problem 400."""
    match = _KEY.fullmatch(values[0].strip()) if len(values) == 1 else None
    if match is None:
        detail = 'Idempotency-Key must be one key of 1 to 255 visible ASCII characters, as "3f2a…".'
        raise Problem(400, "invalid_idempotency_key", detail)
    return match[1] or match[2]


def _secret(key: str, gateway: Gateway) -> SecretStr:
    """What an answer is sealed with: the database holds only a hash of the caller's key, so who reads it reads nothing."""
    ours = gateway.settings.secret_key
    return SecretStr(f"{key}\x00{ours.get_secret_value() if ours else ''}")


def _look(owner: TenantId, digest: bytes, gateway: Gateway) -> Claimed | Running | Answered:
    """Claim the key, or say how it stands. Blocking."""
    limits = gateway.settings
    lease_s, ttl_s = limits.idempotency_lease_s, float(limits.idempotency_ttl_s)
    found: Claimed | Running | Answered | None = None
    for _ in range(_TRIES):
        with suppress(Conflict):
            with unit_of_work(gateway.resources.mysql) as work:
                found = IdempotencyKeys(work.connection, owner).insert(digest, lease_s=lease_s, ttl_s=ttl_s)
            if found is None:
                with unit_of_work(gateway.resources.mysql) as work:
                    found = IdempotencyKeys(work.connection, owner).claim(digest, lease_s=lease_s, ttl_s=ttl_s)
        if found is not None:
            return found
    return Running(lease_left_s=1.0)  # it comes and goes under our hands, so somebody is at work


async def _read_all(request: Request, receive: Receive, limit: int) -> None:
    receive = limited(receive, request.headers, limit)
    while (message := await receive())["type"] == "http.request":
        if not message.get("more_body", False):
            return
    raise Problem(400, "incomplete_body", "The body ended before it was whole.")


async def _renew(attempt: _Attempt, gateway: Gateway) -> None:
    """Hold the key for as long as the request lasts."""
    lease_s = gateway.settings.idempotency_lease_s
    while True:
        await asyncio.sleep(lease_s / 3)
        if (claim := attempt.claim) is None:
            continue

        def renew(claim: _Claim = claim) -> bool:
            with unit_of_work(gateway.resources.mysql) as work:
                keys = IdempotencyKeys(work.connection, claim.owner)
                return keys.renew(claim.digest, claim.claimed.token, lease_s=lease_s)

        try:
            await gateway.run(renew)
        except Unavailable as error:
            log.warning("idempotency_lease_not_renewed", code=error.code)


async def _settle(attempt: _Attempt, answer: Captured | None, gateway: Gateway) -> None:
    """Keep the answer, or let the next one try if it is none to be kept: as if for the first time after a refusal, and
    with the id of this attempt's work after a failure, since a commit can succeed whose answer is lost. What cannot be
    settled is settled by the lease's end."""
    claim, attempt.claim = attempt.claim, None
    if claim is None:
        return
    kept = answer if answer is not None and _is_kept(answer.status) and await _is_whole(attempt.receive) else None

    def settle() -> None:
        with unit_of_work(gateway.resources.mysql) as work:
            keys, token = IdempotencyKeys(work.connection, claim.owner), claim.claimed.token
            if answer is None or answer.status >= 500:
                keys.let_go(claim.digest, token)
            elif kept is None:
                keys.free(claim.digest, token)
            elif not keys.keep(
                claim.digest,
                token,
                _packed(kept, attempt.receive.value, claim),
                ttl_s=float(gateway.settings.idempotency_ttl_s),
            ):
                log.warning("idempotency_key_lost")

    try:
        await gateway.run(settle)
    except Unavailable as error:
        log.warning("idempotency_key_not_settled", code=error.code)


async def _is_whole(receive: FingerprintingReceive) -> bool:
    """Read what the route left of the body: mostly there is none. A refused upload is not read for the sake of its key."""
    left = _MOST_LEFT_BYTES
    with suppress(TimeoutError):
        async with asyncio.timeout(_LEFT_S):
            while not receive.complete and left >= 0:
                message = await receive()
                if message["type"] != "http.request":
                    break
                left -= len(message.get("body", b""))
    return receive.complete


def _is_kept(status: int) -> bool:
    return status < 400 or status in _KEPT_REFUSALS


def _packed(answer: Captured, fingerprint: bytes, claim: _Claim) -> Answered:
    headers = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in answer.headers]
    plain = zlib.compress(orjson.dumps(headers) + b"\n" + answer.body, level=1)
    sealed = claim.sealer.seal(plain, belongs_to=_place(claim.owner, claim.digest))
    return Answered(fingerprint=fingerprint, status=answer.status, answer=sealed)


def _unpacked(found: Answered, sealer: Sealer, owner: TenantId, digest: bytes) -> Captured:
    plain = zlib.decompress(sealer.open(found.answer, belongs_to=_place(owner, digest)))
    head, _, body = plain.partition(b"\n")
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in orjson.loads(head)]
    return Captured(status=found.status, headers=(*headers, REPLAYED), body=body)


def _place(owner: TenantId, digest: bytes) -> str:
    return f"{owner}:{digest.hex()}"
