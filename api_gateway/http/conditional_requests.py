"""Conditional requests (RFC 9110, 13): what has not changed is not sent again, and what has is not overwritten unseen.

Wired once in `app.create_app`. Every JSON answer to a GET of version 1 has an ETag, made of its bytes. A PUT, PATCH or
DELETE at an address that can be read may carry `If-Match` or `If-None-Match: *`: the gateway reads the address as the
caller would, and compares. Writers of one address take turns, so nothing changes between the look and the write. Routes
that know etags of their own (chunks, rollbacks) compare them in their own transactions.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import uuid
from typing import Final
from urllib.parse import unquote_plus

import redis.asyncio
import structlog
from fastapi import Request
from redis.exceptions import RedisError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api_gateway.http.authority import owner_of
from api_gateway.http.capture import Capture, Captured
from api_gateway.http.methods import methods_in
from api_gateway.http.parameters import LENIENT
from api_gateway.http.problems import Problem
from pipeline.errors import PreconditionFailed, StoreUnavailable
from pipeline.records import TenantId

log = structlog.get_logger(__name__)

# Answers that hold no single thing's state, and addresses of single things that do not end in an id.
_SINGLE: Final = ("/v1/dictionary",)
_WRITES: Final = frozenset({"PUT", "PATCH", "DELETE"})
_MOST_BYTES: Final = 8 * 1024 * 1024  # a larger answer has no ETag
_TURN_S: Final = 30.0  # a writer that died keeps others out for so long
_WAIT_S: Final = 5.0  # for one's turn
_LOOK_AGAIN_S: Final = 0.02
_PRIVATE: Final = ((b"cache-control", b"private, no-cache"), (b"vary", b"Authorization"))
_TURN = "conditional_turn"
_NOT_OF_THE_LOOK: Final = (b"if-", b"content-", b"prefer")  # beginnings of headers that are about the write
_TAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e]*"')

_GIVE_BACK = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class ConditionalRequests:
    """Gives GETs their ETag and answers 304; gives back the turns of writers. Plain ASGI."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith("/v1/"):
            await self._app(scope, receive, send)
        elif scope["method"] == "GET":
            await self._read(scope, receive, send)
        elif scope["method"] in _WRITES:
            try:
                await self._app(scope, receive, send)
            finally:
                turn: Turn | None = scope.get("state", {}).pop(_TURN, None)
                if turn is not None:
                    await turn.give_back()
        else:
            await self._app(scope, receive, send)

    async def _read(self, scope: Scope, receive: Receive, send: Send) -> None:
        capture = Capture(send, limit=_MOST_BYTES)
        await self._app(scope, receive, capture)
        answer = capture.answer
        if answer is None or answer.status != 200 or answer.header(b"content-type") != b"application/json":
            await capture.let_go()
            return
        tag = etag_of(answer)
        more = _PRIVATE if answer.header(b"etag") else ((b"etag", tag), *_PRIVATE)
        asked = b", ".join(value for name, value in scope["headers"] if name == b"if-none-match")
        if asked and matches(asked.decode("latin-1"), tag.decode("latin-1"), weakly=True):
            headers = [(name, value) for name, value in answer.headers if not name.startswith(b"content-")]
            await send({"type": "http.response.start", "status": 304, "headers": [*headers, *more]})
            await send({"type": "http.response.body", "body": b""})
            return
        await answer.send(send, more_headers=more)


async def check_preconditions(request: Request) -> None:
    """A dependency of every route. Raises PreconditionFailed for a write at an address whose state is not the one that
    the request names, Problem 409 if another one is writing there for long, and what the route says to one who may not
    use it."""
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
        raise PreconditionFailed("what is there is not what If-Match stands for; look at it again")
    if if_none_match is not None and tag is not None and matches(if_none_match, tag, weakly=True):
        raise PreconditionFailed("what If-None-Match rules out is there; look at it again")


def etag_of(answer: Captured) -> bytes:
    """The route's own ETag, or one made of the bytes: a strong one, since equal bytes are equal states."""
    return answer.header(b"etag") or b'"%s"' % hashlib.sha256(answer.body).hexdigest()[:32].encode()


def matches(header: str, tag: str, *, weakly: bool) -> bool:
    """Whether a header of If-Match or If-None-Match names the tag. ``*`` names every one."""
    if header.strip() == "*":
        return True
    named: list[str] = _TAG.findall(header)
    if weakly:
        return tag.removeprefix("W/") in {each.removeprefix("W/") for each in named}
    return tag in named and not tag.startswith("W/")


def _is_single(request: Request) -> bool:
    """Whether the route writes something that can be read at the same address, and leaves the comparing to us."""
    route = request.scope.get("route")
    template: str = getattr(route, "path", "")
    if not template.startswith("/v1/") or not (template.endswith("}") or template in _SINGLE):
        return False
    if route is None or any(each.name == "if_match" for each in route.dependant.header_params):
        return False
    return "GET" in methods_in(request.app).get(template, ())


async def _present_state(request: Request) -> Captured | None:
    """What a GET at this address answers to this caller now, without waiting; None if there is nothing."""

    async def nowhere(_: Message) -> None:
        raise RuntimeError("the state of a resource is no plain answer")

    headers = [(name, value) for name, value in request.scope["headers"] if not name.startswith(_NOT_OF_THE_LOOK)]
    scope = {
        **request.scope,
        "method": "GET",
        "headers": headers,
        "query_string": _without_wait(request.scope.get("query_string", b"")),
        "state": {**request.scope.get("state", {}), LENIENT: True},
    }
    for name in ("route", "endpoint", "path_params", "fastapi"):
        scope.pop(name, None)
    capture = Capture(nowhere, limit=1 << 62)
    await request.app.router(scope, _nothing_to_say(), capture)
    answer = capture.answer
    if answer is None or answer.status not in (200, 404):
        raise PreconditionFailed("the present state cannot be read with this key, so nothing can be compared with it")
    return answer if answer.status == 200 else None


def _without_wait(query_string: bytes) -> bytes:
    """The parameters but for ``wait``: what a writer waits for comes after the look."""
    kept = [
        each for each in query_string.split(b"&") if unquote_plus(each.partition(b"=")[0].decode("latin-1")) != "wait"
    ]
    return b"&".join(kept)


def _nothing_to_say() -> Receive:
    """The ``receive`` of a client that sends an empty body and stays. It sleeps, as watchers of a disconnect poll it."""
    said = False

    async def receive() -> Message:
        nonlocal said
        if said:
            await asyncio.Event().wait()
        said = True
        return {"type": "http.request", "body": b"", "more_body": False}

    return receive


class Turn:
    """The right to write at one address."""

    def __init__(self, client: redis.asyncio.Redis, key: str) -> None:
        self._client, self._key, self._token = client, key, uuid.uuid4().hex

    async def take(self) -> bool:
        """Whether it is ours now. Raises RedisError."""
        return bool(await self._client.set(self._key, self._token, nx=True, px=int(_TURN_S * 1000)))

    async def give_back(self) -> None:
        """Let the next one write."""
        try:
            await self._client.eval(_GIVE_BACK, 1, self._key, self._token)  # type: ignore[misc]
        except RedisError as error:
            log.info("turn_not_given_back", error=type(error).__name__)


async def _take_turn(request: Request, owner: TenantId, *, needed: bool) -> None:
    target = (request.scope.get("raw_path") or b"") + b"?" + request.scope.get("query_string", b"")
    client: redis.asyncio.Redis = request.app.state.gateway.async_redis
    turn = Turn(client, f"{owner}:writing:{hashlib.sha256(target).hexdigest()[:32]}")
    try:
        async with asyncio.timeout(_WAIT_S):
            while not await turn.take():
                await asyncio.sleep(_LOOK_AGAIN_S)
    except TimeoutError:
        detail = "Another request is writing here for long; try again."
        raise Problem(409, "write_in_progress", detail, headers={"Retry-After": "2"}) from None
    except RedisError as error:
        if needed:  # without taking turns, comparing would promise what it cannot keep
            raise StoreUnavailable(f"Redis: {type(error).__name__}") from error
        log.warning("write_without_a_turn", error=type(error).__name__)
        return
    request.scope.setdefault("state", {})[_TURN] = turn
