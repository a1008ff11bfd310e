"""`Idempotency-Key`: repeat the answer to a repeated POST without repeating its work.

Two parts, wired once in `app.create_app`. `IdempotentPosts` surrounds the routes: it hashes the body while the route
reads it, and stores the answer before it is sent. `claim_key` is a dependency of every route and so knows the route: it
claims the key, or ends the request with the stored answer.
"""

import asyncio
import hashlib
import math
import re
import uuid
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

import orjson
import structlog
from fastapi import Request, Response
from pydantic import SecretStr
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api_gateway.gateway import Gateway, gateway_of
from api_gateway.http.auth import owner_of
from api_gateway.http.bodies import limited
from api_gateway.http.capture import Capture, Captured
from api_gateway.http.problems import Problem
from pipeline.administration import claim_idempotency_key
from pipeline.database.encryption import SecretCipher
from pipeline.deadline import Deadline
from pipeline.filters.readers import EVERY_DOCUMENT
from pipeline.outages import tolerate_outage
from pipeline.records import JobId, TenantId
from pipeline.tenants.accounts import Principal
from pipeline.tenants.idempotency import LEASE_S, Answered, HeldKey, Running

log = structlog.get_logger(__name__)

MOST_ANSWER_BYTES: Final = 4 * 1024 * 1024  # a larger answer is sent but not stored; its request may run again
REPLAYED: Final = (b"idempotency-replayed", b"true")
_KEY = re.compile(r'"([\x20\x21\x23-\x5b\x5d-\x7e]{1,255})"|([\x21\x23-\x7e]{1,255})')
_ATTEMPT = "idempotent_attempt"
_MOST_REST_BYTES, _REST_S = 64 * 1024, 1.0  # of a body that the route has not read to its end

# Refusals with these statuses are stored and repeated. Others may differ a moment later; they created nothing, so they free
# the key. After a failure the lease expires.
_STORED_REFUSALS = frozenset({400, 413, 415, 422})


class _Digest(Protocol):
    def update(self, data: bytes, /) -> object: ...


class _Parts:
    """Hash a multipart body part by part, because a client that repeats it uses another boundary."""

    def __init__(self, boundary: bytes, digest: _Digest) -> None:
        self._digest = digest
        self._broken = self._in_value = False
        self._length = 0
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._mark(b"\x00"),
                "on_header_begin": self._mark(b"\x01"),
                "on_header_field": self._data,
                "on_header_value": self._value,
                "on_header_end": self._mark(b"\x03"),
                "on_part_data": self._data,
                "on_part_end": self._mark(b"\x04"),
                "on_end": self._mark(b"\x05"),
            },
        )

    def update(self, data: bytes) -> None:
        """Hash the next bytes. A body that is not multipart after all is hashed as it is."""
        if not self._broken:
            try:
                self._parser.write(data)
                return
            except MultipartParseError:
                self._broken = True
        self._digest.update(data)

    def _mark(self, sign: bytes) -> Callable[[], None]:
        """Return a function that ends a piece and adds its length; a piece may arrive in any number of parts."""

        def mark() -> None:
            self._digest.update(sign + self._length.to_bytes(8, "big"))
            self._length = 0
            self._in_value = False

        return mark

    def _value(self, data: bytes, start: int, end: int) -> None:
        if not self._in_value:
            self._mark(b"\x02")()
            self._in_value = True
        self._data(data, start, end)

    def _data(self, data: bytes, start: int, end: int) -> None:
        self._digest.update(data[start:end])
        self._length += end - start


class FingerprintingReceive:
    """A request's ``receive`` that hashes the body as it is read, without storing it."""

    def __init__(self, receive: Receive, *, target: bytes, content_type: str) -> None:
        """Start the hash with ``target``: path and query as they came over the wire."""
        self._receive = receive
        self._digest = hashlib.sha256(target + b"\n")
        kind, options = parse_options_header(content_type)
        self._digest.update(kind.lower() + b"\n")
        self._body: _Digest = self._digest
        boundary = options.get(b"boundary", b"")
        if kind.lower() == b"multipart/form-data" and 0 < len(boundary) <= 256:
            self._body = _Parts(boundary, self._digest)
        self.complete = False

    async def __call__(self) -> Message:
        """Receive a part of the body and add it to the fingerprint."""
        message = await self._receive()
        if message["type"] == "http.request" and not self.complete:
            if body := message.get("body", b""):
                self._body.update(body)
            self.complete = not message.get("more_body", False)
        return message

    @property
    def value(self) -> bytes:
        """Return the fingerprint of the whole request; call only once the body is ``complete``."""
        if not self.complete:
            raise RuntimeError("the body has not been read to its end")
        return self._digest.digest()


class Replay(Exception):
    """Raised when the request was answered before; carries the stored answer."""

    def __init__(self, answer: Captured) -> None:
        super().__init__("answered before")
        self.answer = answer

    def response(self, _: Scope) -> Response:
        """Return the stored answer with a header that marks it as a replay."""
        response = Response(self.answer.body, status_code=self.answer.status)
        response.raw_headers = list(self.answer.headers)
        return response


@dataclass(slots=True)
class _Attempt:
    """One request with a key."""

    key: str
    receive: FingerprintingReceive
    claim: HeldKey | None = None


class IdempotentPosts:
    """Store the answers to POST requests with a key. Plain ASGI."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; a POST with a key is carried out once."""
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
        completed = cancelled = False
        try:
            await self._app(scope, hashing, capture)
            completed = True
        except asyncio.CancelledError:
            cancelled = True  # its work may continue in a thread, so the lease has to expire
            raise
        finally:
            renewing.cancel()
            if not cancelled:
                await _settle(attempt, capture.answer if completed else None, gateway)
        await capture.release()


async def claim_key(request: Request) -> None:
    """Claim the request's key; a dependency of every route.

    Raises Replay; Problem(409) while another request with the key runs; Problem(422) if the key was used for another
    request; the route's own problem for a caller without access; and Unavailable.
    """
    attempt: _Attempt | None = request.scope.get("state", {}).get(_ATTEMPT)
    if attempt is None:
        return
    owner = await owner_of(request)
    if owner is None:
        return
    gateway = gateway_of(request)
    template = getattr(request.scope.get("route"), "path", request.url.path)
    named = [request.method, template, attempt.key, *_principals(request)]
    digest = hashlib.sha256(orjson.dumps(named)).digest()
    cipher = SecretCipher(_secret(attempt.key, gateway))
    state = await gateway.run(lambda: claim_idempotency_key.claim(owner, digest, gateway.resources))
    if isinstance(state, HeldKey):
        attempt.claim = state
        return
    if isinstance(state, Running):
        headers = {"Retry-After": str(max(1, min(5, math.ceil(state.lease_left_s))))}
        detail = "A request with this Idempotency-Key is still running; send it again later for its answer."
        raise Problem(409, "idempotency_key_in_use", detail, headers=headers)
    await _read_all(request, attempt.receive, gateway.settings.max_body_bytes)
    if attempt.receive.value != state.fingerprint:
        detail = "This Idempotency-Key was used for another request; a new request takes a new key."
        raise Problem(422, "idempotency_key_reused", detail)
    raise Replay(_unpacked(state, cipher, belongs_to=_position(owner, digest)))


def _principals(request: Request) -> list[str]:
    """Return the principals of the caller, whose key is another one than that of callers who see other documents."""
    principal: Principal | None = getattr(request.state, "principal", None)
    if principal is None:
        return []
    return [EVERY_DOCUMENT] if principal.reads_as is None else sorted(principal.reads_as)


def work_id(request: Request) -> JobId | None:
    """Return the job id shared by every attempt with this key, None without a key. Call after the body was read."""
    attempt: _Attempt | None = request.scope.get("state", {}).get(_ATTEMPT)
    if attempt is None or attempt.claim is None or not attempt.receive.complete:
        return None
    return JobId(str(uuid.uuid5(uuid.UUID(attempt.claim.work_id), attempt.receive.value.hex())))


def key_of(values: list[str]) -> str:
    """Return the key in the header, with or without quotation marks. Raises Problem(400)."""
    match = _KEY.fullmatch(values[0].strip()) if len(values) == 1 else None
    if match is None:
        detail = 'Idempotency-Key must be one key of 1 to 255 visible ASCII characters, as "3f2a…".'
        raise Problem(400, "invalid_idempotency_key", detail)
    return match[1] or match[2]


def _secret(key: str, gateway: Gateway) -> SecretStr:
    """Return the secret that encrypts an answer. The database holds only a hash of the key, so its readers can decrypt
    none."""
    ours = gateway.settings.secret_key
    return SecretStr(f"{key}\x00{ours.get_secret_value() if ours else ''}")


async def _read_all(request: Request, receive: Receive, limit: int) -> None:
    receive = limited(receive, request.headers, limit)
    while (message := await receive())["type"] == "http.request":
        if not message.get("more_body", False):
            return
    raise Problem(400, "incomplete_body", "The body ended before it was complete.")


async def _renew(attempt: _Attempt, gateway: Gateway) -> None:
    """Renew the lease for as long as the request lasts."""
    while True:
        await asyncio.sleep(LEASE_S / 3)
        if (claim := attempt.claim) is None:
            continue
        with tolerate_outage(log.warning, "idempotency_lease_not_renewed"):
            await gateway.run(claim_idempotency_key.renew, claim, gateway.resources)


async def _settle(attempt: _Attempt, answer: Captured | None, gateway: Gateway) -> None:
    """Store the answer, or free the key.

    After a refusal the next attempt starts afresh; after a failure it keeps the id of this attempt's work, since a
    commit can succeed whose answer is lost. If Redis or MySQL fails here, this is done as soon as they are back, or else the
    lease expires.
    """
    claim, attempt.claim = attempt.claim, None
    if claim is None:
        return
    storable = answer is not None and _is_stored(answer.status) and await _read_rest(attempt.receive)

    def settle() -> None:
        use = gateway.resources
        if answer is None or not storable:
            failed = answer is None or answer.status >= 500
            claim_idempotency_key.free(claim, use, made_something=failed)
        elif not claim_idempotency_key.keep(claim, _packed(answer, attempt, claim, gateway), use):
            log.warning("idempotency_key_lost")

    with tolerate_outage(log.warning, "idempotency_key_not_settled"):
        await gateway.run(settle)
        return
    if len(_unsettled) < _MOST_UNSETTLED:
        later = asyncio.create_task(_settle_later(settle, gateway))
        _unsettled.add(later)
        later.add_done_callback(_unsettled.discard)


_AGAIN_S: Final = 1.0
_MOST_UNSETTLED: Final = 200  # the leases of others expire
_unsettled: set[asyncio.Task[None]] = set()


async def _settle_later(settle: Callable[[], None], gateway: Gateway) -> None:
    """Settle a key once the store answers again: callers repeat a refused request with the same key."""
    lease = Deadline.after(LEASE_S)
    while not lease.has_passed:
        await asyncio.sleep(_AGAIN_S)
        with tolerate_outage(log.debug, "idempotency_key_not_settled"):
            await gateway.run(settle)
            return


async def _read_rest(receive: FingerprintingReceive) -> bool:
    """Read the part of the body that the route left, usually nothing, and return whether the body is complete. A
    refused upload is not read for the sake of its key."""
    remaining = _MOST_REST_BYTES
    with suppress(TimeoutError):
        async with asyncio.timeout(_REST_S):
            while not receive.complete and remaining >= 0:
                message = await receive()
                if message["type"] != "http.request":
                    break
                remaining -= len(message.get("body", b""))
    return receive.complete


def _is_stored(status: int) -> bool:
    return status < 400 or status in _STORED_REFUSALS


def _packed(answer: Captured, attempt: _Attempt, claim: HeldKey, gateway: Gateway) -> Answered:
    headers = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in answer.headers]
    plain = zlib.compress(orjson.dumps(headers) + b"\n" + answer.body, level=1)
    cipher = SecretCipher(_secret(attempt.key, gateway))
    encrypted = cipher.encrypt(plain, belongs_to=_position(claim.tenant_id, claim.digest))
    return Answered(fingerprint=attempt.receive.value, status=answer.status, answer=encrypted)


def _unpacked(stored: Answered, cipher: SecretCipher, *, belongs_to: str) -> Captured:
    plain = zlib.decompress(cipher.decrypt(stored.answer, belongs_to=belongs_to))
    head, _, body = plain.partition(b"\n")
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in orjson.loads(head)]
    return Captured(status=stored.status, headers=(*headers, REPLAYED), body=body)


def _position(owner: TenantId, digest: bytes) -> str:
    return f"{owner}:{digest.hex()}"
