"""Requests and answers as plain values, and their conversion to and from httpx.

Operations are written once, as generators that yield a ``Call`` and receive its outcome, or seconds to wait. The
synchronous and the asynchronous client differ only in how they run these.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

import httpx

from chordwise.errors import NotConfigured, UnexpectedAnswer

T = TypeVar("T")

CLIENT_VERSION = "0.2.0"  # read from here when the distribution is built; that of the server's pyproject.toml

USER_AGENT = f"chordwise-python/{CLIENT_VERSION}"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


FilePart: TypeAlias = tuple[str, bytes, str]  # a file of a multipart request: its name, content and media type


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request. ``hold_s``: seconds that the server may hold the answer. ``safe``: it may be sent twice. ``expects``:
    error statuses that are ordinary answers here. ``limit_s``: the longest wait, given by the caller's deadline."""

    method: str
    path: str
    params: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    files: tuple[FilePart, ...] = ()
    form: Mapping[str, str] = field(default_factory=dict)
    hold_s: float = 0.0
    safe: bool = True
    expects: frozenset[int] = frozenset()
    limit_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A response. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    def json(self) -> Any:
        """Parse the body. Raises UnexpectedAnswer if it is not JSON."""
        try:
            return json.loads(self.content)
        except ValueError:
            kind = self.headers.get("content-type", "something").partition(";")[0]
            raise UnexpectedAnswer(f"the answer with status {self.status} is {kind}, not JSON") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoAnswer:
    """A failed exchange. ``sent`` is false only if the server certainly received nothing of the request."""

    reason: str
    sent: bool
    timed_out: bool
    cause: Exception


Outcome: TypeAlias = Answer | NoAnswer
Steps: TypeAlias = Generator[Call | float, Outcome | None, T]


def encode(value: object) -> bytes:
    """Encode as JSON in UTF-8; lone surrogates, which UTF-8 cannot hold, are escaped for the server to refuse."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def plain(value: Any) -> Any:
    """Convert a value for JSON: times to RFC 3339 (UTC if they have no time zone), collections to lists."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    if isinstance(value, tuple | set | frozenset):
        return list(value)
    return value


def client_arguments(url: str | None, api_key: str | None) -> dict[str, Any]:
    """Return the arguments for ``httpx.Client`` and ``httpx.AsyncClient``. Raises NotConfigured."""
    if not url:
        raise NotConfigured("no server address is given: set CHORDWISE_URL, or pass url")
    if not api_key:
        raise NotConfigured("no API key is given: set CHORDWISE_API_KEY, or pass api_key")
    if not (api_key.isascii() and api_key.isprintable() and " " not in api_key):
        raise NotConfigured("the API key contains invalid characters; check CHORDWISE_API_KEY")
    try:
        host = httpx.URL(url).host
        valid = urlsplit(url).scheme in ("http", "https") and bool(host)
    except (httpx.InvalidURL, ValueError):
        valid, host = False, ""
    if not valid:
        raise NotConfigured("the address of the server must look like http://host:port; check CHORDWISE_URL")
    # Loading the certificate store takes longer than a query and http does not need it, so http gets an empty
    # context.
    secure = urlsplit(url).scheme == "https"
    return {
        "base_url": url.rstrip("/"),
        "verify": httpx.create_ssl_context() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        "headers": {"Authorization": f"Bearer {api_key}", "User-Agent": USER_AGENT, "Accept": "application/json"},
        "trust_env": host not in _LOOPBACK,  # a proxy from the environment cannot reach this machine's own loopback
        "limits": httpx.Limits(max_connections=64, max_keepalive_connections=32),
    }


def request_arguments(call: Call, timeout_s: float) -> dict[str, Any]:
    """Return the arguments for ``request`` of either httpx client."""
    limit_s = float("inf") if call.limit_s is None else call.limit_s
    arguments: dict[str, Any] = {
        "method": call.method,
        "url": call.path,
        "params": list(call.params) or None,
        "headers": dict(call.headers),
        "timeout": httpx.Timeout(
            min(timeout_s, limit_s), read=min(timeout_s + call.hold_s, limit_s), connect=min(timeout_s, 10.0, limit_s)
        ),
    }
    if call.files:
        arguments["files"] = [("file", part) for part in call.files]
        arguments["data"] = dict(call.form)
    elif call.content is not None:
        arguments["content"] = call.content
        arguments["headers"].setdefault("Content-Type", "application/json")
    return arguments


def answer(response: httpx.Response) -> Answer:
    """Convert a response whose body has been read."""
    return Answer(status=response.status_code, headers=dict(response.headers), content=response.content)


def no_answer(error: httpx.HTTPError) -> NoAnswer:
    """Convert an error of httpx."""
    reason = re.sub(r"^\[Errno \S+\] ", "", str(error)) or type(error).__name__
    return NoAnswer(
        reason=f"{_origin(error)}: {reason}",
        sent=not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout),
        timed_out=isinstance(error, httpx.TimeoutException),
        cause=error,
    )


def _origin(error: httpx.HTTPError) -> str:
    """Return scheme, host and port of the failed request, without a password that the address may hold."""
    url = error.request.url
    return f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}"
