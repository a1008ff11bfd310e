"""What operations have in common: one request with a JSON body, and lists that come in pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

from chordwise.api.documents import plain
from chordwise.errors import InvalidInput, UnexpectedAnswer
from chordwise.records import decode
from chordwise.retries import RetryPolicy, exchange
from chordwise.transport import Answer, Call, Steps, encode

T = TypeVar("T")
_PER_PAGE = 100


class Requesting:
    """A base for parts of ``Operations``."""

    _policy: RetryPolicy
    _clock: Callable[[], float]

    def _request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        **details: Any,
    ) -> Steps[Answer]:
        """Send one request with a JSON ``body`` or with ``content``, parameters that are None left out. ``details`` are
        other fields of Call. Raises InvalidInput for a body that is no JSON."""
        sent = content if body is None else as_content(body)
        asked = parameters(params or {})
        call = Call(method=method, path=path, params=asked, headers=headers or {}, content=sent, **details)
        return exchange(call, self._policy, clock=self._clock)

    def _one(self, kind: type[T], method: str, path: str, **details: Any) -> Steps[T]:
        """Send a request as ``_request`` does and decode its answer."""
        return decode(kind, (yield from self._request(method, path, **details)).json())

    def _list(self, kind: type[T], path: str) -> Steps[list[T]]:
        """Return a list that comes in one page."""
        return entries(kind, (yield from self._request("GET", path)).json(), path)

    def _pages(
        self,
        kind: type[T],
        path: str,
        params: Mapping[str, Any] | None = None,
        *,
        limit: int | None = None,
        at_most: int = _PER_PAGE,
    ) -> Steps[list[T]]:
        """Follow the cursor until ``limit`` entries, or all, are there. Only the first page gets an ``offset``."""
        wanted = dict(params or {})
        found: list[T] = []
        cursor: str | None = None
        while limit is None or len(found) < limit:
            size = at_most if limit is None else min(at_most, limit - len(found))
            asked = {**wanted, "limit": size, "cursor": cursor}
            found += entries(kind, page := (yield from self._request("GET", path, params=asked)).json(), path)
            cursor = page.get("next_cursor")
            if not cursor:
                break
            wanted.pop("offset", None)
        return found[:limit]


def entries(kind: type[T], page: Any, path: str) -> list[T]:
    """What ``data`` of an answer holds. Raises UnexpectedAnswer if it is no list."""
    if not isinstance(page, dict) or not isinstance(page.get("data"), list):
        raise UnexpectedAnswer(f"{path} does not answer with a list")
    return [decode(kind, entry) for entry in page["data"]]


def as_content(body: Mapping[str, Any], what: str = "request") -> bytes:
    """Encode a body. Raises InvalidInput, naming ``what``, if it is not JSON."""
    try:
        return encode(body)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the {what} is not JSON: {error}") from error


def parameters(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return query parameters, those that are None left out and those with several values repeated."""
    several = ((name, value if isinstance(value, list | tuple) else [value]) for name, value in values.items())
    return tuple((name, _said(each)) for name, value in several for each in value if each is not None)


def segment(identifier: str) -> str:
    """An id as a part of a path."""
    return quote(identifier, safe="", errors="surrogatepass")


def _said(value: Any) -> str:
    if isinstance(value, Mapping):
        return as_content({name: plain(each) for name, each in value.items()}).decode()
    return str(value).lower() if isinstance(value, bool) else str(plain(value))
