"""Read request bodies within limits, and decode JSON while reporting strings that no store can hold."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import orjson
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Message, Receive

from api_gateway.http.problems import MOST_ERRORS, Problem, invalid, pointer
from pipeline.filters import lenient_json
from pipeline.outbound import json_limits

_SILENCE_S = 30.0  # pause in the upload after which the request is refused


@dataclass(frozen=True, slots=True)
class Decoded:
    """A JSON object. It can contain flaws only if it is ``suspicious``."""

    value: dict[str, Any]
    suspicious: bool = False


MAX_BODY_BYTES = "CHORDWISE_MAX_BODY_BYTES"


def too_large(limit: int, setting: str | None = None) -> Problem:
    """Return Problem(413), naming the limit and the setting that it follows from."""
    source = f" ({setting})" if setting else ""
    detail = f"The body is larger than the {limit} bytes that are taken at once{source}."
    return Problem(413, "body_too_large", detail)


def limited(receive: Receive, headers: Headers, limit: int, *, setting: str | None = None) -> Receive:
    """Wrap ``receive``: raise Problem 413 for a body of more than ``limit`` bytes, 408 for a sender that stalls."""
    declared = headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared[:19]) > limit:
        raise too_large(limit, setting)
    seen = 0

    async def receive_within_limit() -> Message:
        nonlocal seen
        try:
            async with asyncio.timeout(_SILENCE_S):
                message = await receive()
        except TimeoutError:
            detail = f"No part of the body arrived for {_SILENCE_S:.0f} seconds."
            raise Problem(408, "body_too_slow", detail, headers={"Connection": "close"}) from None
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > limit:
                raise too_large(limit, setting)
        return message

    return receive_within_limit


async def read_json_body(request: Request, limit: int, *, setting: str | None = None) -> bytes:
    """Return the bytes of a JSON body. ``setting`` is the one that the limit follows from. Raises Problem(413), or
    Problem(415) for any other content type than JSON in UTF-8."""
    require_identity(request.headers)
    media_type, _, parameters = request.headers.get("content-type", "").partition(";")
    if media_type.strip().lower() != "application/json":
        raise _media_type(f"a body of type {media_type.strip() or 'unknown'}", "application/json")
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value.strip().strip('"').lower() not in ("utf-8", "utf8"):
            raise _media_type(f"the character set {value.strip()}", "application/json in UTF-8")
    receive = limited(request.receive, request.headers, limit, setting=setting)
    return await Request(request.scope, receive).body()


def require_identity(headers: Mapping[str, str]) -> None:
    """Raise Problem 415 for a compressed body."""
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise _media_type(f"the content encoding {encoding}", "a body without Content-Encoding")


def decode_json(body: bytes) -> Decoded:
    """Parse a JSON object. Raises Problem: 400 if the body is not JSON in UTF-8, 413 if it has too much structure, 422
    if the JSON is not an object.

    JSON can spell strings that no database accepts: ``\\u0000`` and lone surrogates. Return them as flaws, so that such
    a string fails its own document and not the whole batch.
    """
    body = body.removeprefix(b"\xef\xbb\xbf")
    suspicious = rb"\u0000" in body
    with _bounded():
        try:
            value = json_limits.loads(body)
        except orjson.JSONDecodeError as error:
            value = _with_surrogates(body, error)
            suspicious = True
            json_limits.require_shape(value)
    if not isinstance(value, dict):
        raise invalid([{"pointer": "", "detail": "must be a JSON object"}])
    return Decoded(value, suspicious)


def require_bounded(body: bytes) -> None:
    """Raise Problem(413) for JSON with too much structure. Its own parser reports invalid JSON."""
    with _bounded(), suppress(orjson.JSONDecodeError):
        if json_limits.require_few_values(body):
            json_limits.require_shape(orjson.loads(body))


def json_field(name: str, text: str) -> Any:
    """Parse a form field that holds JSON. Raises Problem 413 or 422, naming the field."""
    try:
        with _bounded(f"The field {name}"):
            return json_limits.loads(text.encode("utf-8", "surrogatepass"))
    except orjson.JSONDecodeError as error:
        raise invalid([{"pointer": pointer([name]), "detail": f"is not JSON: {error.msg}"}]) from None


@contextmanager
def _bounded(what: str = "The body") -> Iterator[None]:
    """Raise Problem(413) if the block finds JSON that exceeds a limit on its structure."""
    try:
        yield
    except json_limits.TooComplex as error:
        limit = {"name": error.name, "limit": error.limit}
        raise Problem(413, "body_too_complex", f"{what} {error}.", extensions={"limit": limit}) from None


def refuse_flaws(decoded: Decoded) -> dict[str, Any]:
    """Return the value if every string in it can be stored. Raises Problem(422)."""
    flaws = list(islice(flaws_in(decoded.value), MOST_ERRORS)) if decoded.suspicious else []
    if flaws:
        raise invalid(flaws)
    return decoded.value


def flaws_in(value: dict[str, Any] | list[Any]) -> Iterator[dict[str, str]]:
    """Yield the pointer to every string that JSON can express and no store can hold, and the reason. Iterative, because the
    sender chooses the depth."""
    path: list[str | int] = []
    waiting = [_entries(value)]
    while waiting:
        for key, entry in waiting[-1]:
            if isinstance(key, str) and (detail := _flaw(key)):
                yield {"pointer": pointer([*path, key]), "detail": f"its name {detail}"}
            if isinstance(entry, dict | list):
                path.append(key)
                waiting.append(_entries(entry))
                break
            if isinstance(entry, str) and (detail := _flaw(entry)):
                yield {"pointer": pointer([*path, key]), "detail": detail}
        else:
            waiting.pop()
            if path:
                path.pop()


def _entries(value: dict[str, Any] | list[Any]) -> Iterator[tuple[str | int, Any]]:
    return iter(value.items()) if isinstance(value, dict) else enumerate(value)


def _with_surrogates(body: bytes, refusal: orjson.JSONDecodeError) -> Any:
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        detail = f"The body is not UTF-8: there is an invalid byte at offset {error.start}."
        raise Problem(400, "invalid_encoding", detail) from None
    # orjson rejects lone surrogates. The standard library accepts them, so it parses bodies that may contain one.
    if r"\ud" in text or r"\uD" in text:
        try:
            return lenient_json.loads(text)
        except (ValueError, RecursionError):
            pass
    position = f"line {refusal.lineno} column {refusal.colno}"
    detail = f"The body is not JSON: {refusal.msg}, at {position}." if body.strip() else "The body is empty."
    raise Problem(400, "invalid_json", detail) from None


def _flaw(text: str) -> str | None:
    if "\0" in text:
        return "holds a NUL character"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "contains a lone surrogate, which UTF-8 cannot encode"
    return None


def _media_type(what: str, accepted: str) -> Problem:
    return Problem(415, "unsupported_media_type", f"This route does not take {what}; it takes {accepted}.")
