"""Conditional requests (RFC 9110, 13): answer 304 for an unchanged resource, and prevent lost updates.

Wired once in `app.create_app`. Every JSON answer to a GET of version 1 has an ETag, made of its bytes. A PUT, PATCH or
DELETE at an address that can be read may carry `If-Match` or `If-None-Match: *`: the gateway reads the address as the
caller would, and compares. Writers of one address take turns, so nothing changes between the read and the write. Routes
with etags of their own (chunks, rollbacks) compare them in their own transactions.
"""

import asyncio
import hashlib
import re
from typing import Final
from urllib.parse import unquote_plus

import redis.asyncio
import structlog
from fastapi import Request
from redis.asyncio.lock import Lock
from redis.exceptions import RedisError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api_gateway.http.auth import owner_of
from api_gateway.http.capture import Capture, Captured
from api_gateway.http.operations import LENIENT, methods_in
from api_gateway.http.problems import Problem
from pipeline.errors import PreconditionFailed, StoreUnavailable
from pipeline.records import TenantId

log = structlog.get_logger(__name__)

# Answers that are not the state of one resource, and addresses of single resources that do not end in an id.
_SINGLE: Final = ("/v1/dictionary",)
_WRITES: Final = frozenset({"PUT", "PATCH", "DELETE"})
_MOST_BYTES: Final = 8 * 1024 * 1024  # a larger answer has no ETag
_TURN_S: Final = 30.0  # a writer that died blocks others for this long
_WAIT_S: Final = 5.0  # longest wait for the turn
_RETRY_S: Final = 0.02
_PRIVATE: Final = ((b"cache-control", b"private, no-cache"), (b"vary", b"Authorization"))
_TURN = "conditional_turn"
_WRITE_HEADERS: Final = (b"if-", b"content-", b"prefer")  # prefixes of headers that describe the write
_TAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e]*"')


class ConditionalRequests:
    """Add ETags to GETs, answer 304, and release the turns of writers. Plain ASGI."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, with 304 where the client has the same response."""
        if scope["type"] != "http" or not scope["path"].startswith("/v1/"):
            await self._app(scope, receive, send)
        elif scope["method"] == "GET":
            await self._read(scope, receive, send)
        elif scope["method"] in _WRITES:
            try:
                await self._app(scope, receive, send)
            finally:
                turn: Lock | None = scope.get("state", {}).pop(_TURN, None)
                if turn is not None:
                    await _release(turn)
        else:
            await self._app(scope, receive, send)

    async def _read(self, scope: Scope, receive: Receive, send: Send) -> None:
        capture = Capture(send, limit=_MOST_BYTES)
        await self._app(scope, receive, capture)
        answer = capture.answer
        if answer is None or answer.status != 200 or answer.header(b"content-type") != b"application/json":
            await capture.release()
            return
        tag = etag_of(answer)
        more = _PRIVATE if answer.header(b"etag") else ((b"etag", tag), *_PRIVATE)
        condition = b", ".join(value for name, value in scope["headers"] if name == b"if-none-match")
        if condition and matches(condition.decode("latin-1"), tag.decode("latin-1"), weakly=True):
            headers = [(name, value) for name, value in answer.headers if not name.startswith(b"content-")]
            await send({"type": "http.response.start", "status": 304, "headers": [*headers, *more]})
            await send({"type": "http.response.body", "body": b""})
            return
        await answer.send(send, more_headers=more)


async def check_preconditions(request: Request) -> None:
    """Check the conditions of a write; a dependency of every route.

    Raises PreconditionFailed if the state is not the one that the request names, Problem(409) if another writer holds
    the address for too long, and the route's own problem for a caller without access.
    """
    if request.method not in _WRITES or not _is_single(request):
        return
    owner = await owner_of(request)
    if owner is None:
        return
    conditions = request.headers.get("if-match"), request.headers.get("if-none-match")
    await _take_turn(request, owner, needed=conditions != (None, None))
    if conditions == (None, None):
        return
    present = await _present_state(request)
    if_match, if_none_match = conditions
    tag = None if present is None else etag_of(present).decode("latin-1")
    if if_match is not None and (tag is None or not matches(if_match, tag, weakly=False)):
        raise PreconditionFailed("the current state does not match If-Match; read it again")
    if if_none_match is not None and tag is not None and matches(if_none_match, tag, weakly=True):
        raise PreconditionFailed("the current state matches If-None-Match; read it again")


def etag_of(answer: Captured) -> bytes:
    """Return the route's own ETag, or a strong one made of the bytes, since equal bytes are equal states."""
    return answer.header(b"etag") or b'"%s"' % hashlib.sha256(answer.body).hexdigest()[:32].encode()


def matches(header: str, tag: str, *, weakly: bool) -> bool:
    """Return whether an If-Match or If-None-Match header names the tag. ``*`` names every tag."""
    if header.strip() == "*":
        return True
    named: list[str] = _TAG.findall(header)
    if weakly:
        return tag.removeprefix("W/") in {name.removeprefix("W/") for name in named}
    return tag in named and not tag.startswith("W/")


def _is_single(request: Request) -> bool:
    """Return whether the route writes a resource that can be read at the same address and leaves the comparison to this
    module."""
    route = request.scope.get("route")
    template: str = getattr(route, "path", "")
    if not template.startswith("/v1/") or not (template.endswith("}") or template in _SINGLE):
        return False
    if route is None or any(header.name == "if_match" for header in route.dependant.header_params):
        return False
    return "GET" in methods_in(request.app).get(template, ())


async def _present_state(request: Request) -> Captured | None:
    """Return the current answer to a GET at this address for this caller, without waiting; None if there is none."""

    async def refuse_stream(_: Message) -> None:
        raise RuntimeError("a resource's state was sent as a stream")

    headers = [(name, value) for name, value in request.scope["headers"] if not name.startswith(_WRITE_HEADERS)]
    scope = {
        **request.scope,
        "method": "GET",
        "headers": headers,
        "query_string": _without_wait(request.scope.get("query_string", b"")),
        "state": {**request.scope.get("state", {}), LENIENT: True},
    }
    for name in ("route", "endpoint", "path_params", "fastapi"):
        scope.pop(name, None)
    capture = Capture(refuse_stream, limit=1 << 62)
    await request.app.router(scope, _empty_body(), capture)
    answer = capture.answer
    if answer is None or answer.status not in (200, 404):
        raise PreconditionFailed("this key cannot read the current state, so the condition cannot be checked")
    return answer if answer.status == 200 else None


def _without_wait(query_string: bytes) -> bytes:
    """Return the query string without ``wait``, which applies to the write and not to this read."""
    parameters = query_string.split(b"&")
    return b"&".join(p for p in parameters if unquote_plus(p.partition(b"=")[0].decode("latin-1")) != "wait")


def _empty_body() -> Receive:
    """Return a ``receive`` for a connected client with an empty body. It sleeps, because watchers of a disconnect poll
    it."""
    is_read = False

    async def receive() -> Message:
        nonlocal is_read
        if is_read:
            await asyncio.Event().wait()
        is_read = True
        return {"type": "http.request", "body": b"", "more_body": False}

    return receive


async def _take_turn(request: Request, owner: TenantId, *, needed: bool) -> None:
    target = (request.scope.get("raw_path") or b"") + b"?" + request.scope.get("query_string", b"")
    client: redis.asyncio.Redis = request.app.state.gateway.resources.async_redis
    key = f"{owner}:writing:{hashlib.sha256(target).hexdigest()[:32]}"
    turn = Lock(client, key, timeout=_TURN_S, sleep=_RETRY_S, blocking_timeout=_WAIT_S, thread_local=False)
    try:
        is_taken = await turn.acquire()
    except RedisError as error:
        if needed:  # without turns, a comparison could not be guaranteed
            raise StoreUnavailable(f"Redis: {type(error).__name__}") from error
        log.warning("write_not_serialized", error=type(error).__name__)
        return
    if not is_taken:
        detail = "Another request has been writing here for a long time; try again."
        raise Problem(409, "write_in_progress", detail, headers={"Retry-After": "2"})
    request.scope.setdefault("state", {})[_TURN] = turn


async def _release(turn: Lock) -> None:
    try:
        await turn.release()
    except RedisError as error:
        log.info("turn_not_released", error=type(error).__name__)
