"""What operations have in common: one request with a JSON body, and lists that come in pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

from chordwise.decoding import decode
from chordwise.documents import plain
from chordwise.errors import InvalidInput, UnexpectedAnswer
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
        safe: bool = True,
    ) -> Steps[Answer]:
        """``safe``: it may be sent again after a broken connection. Raises InvalidInput for a body that is no JSON."""
        content = None if body is None else as_content(body)
        asked = tuple((name, _said(value)) for name, value in (params or {}).items() if value is not None)
        call = Call(method=method, path=path, params=asked, headers=headers or {}, content=content, safe=safe)
        return exchange(call, self._policy, clock=self._clock)

    def _pages(
        self, kind: type[T], path: str, params: Mapping[str, Any] | None = None, *, limit: int | None = None
    ) -> Steps[list[T]]:
        """Follow the cursor until ``limit`` entries, or all, are there."""
        found: list[T] = []
        cursor: str | None = None
        while limit is None or len(found) < limit:
            size = _PER_PAGE if limit is None else min(_PER_PAGE, limit - len(found))
            asked = {**(params or {}), "limit": size, "cursor": cursor}
            found += entries(kind, page := (yield from self._request("GET", path, params=asked)).json(), path)
            cursor = page.get("next_cursor")
            if not cursor:
                break
        return found[:limit]


def entries(kind: type[T], page: Any, path: str) -> list[T]:
    """What ``data`` of an answer holds. Raises UnexpectedAnswer if it is no list."""
    if not isinstance(page, dict) or not isinstance(page.get("data"), list):
        raise UnexpectedAnswer(f"{path} does not answer with a list")
    return [decode(kind, entry) for entry in page["data"]]


def as_content(body: Mapping[str, Any]) -> bytes:
    """A body as it is sent. Raises InvalidInput for what is no JSON."""
    try:
        return encode(body)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the request is not JSON: {error}") from error


def segment(identifier: str) -> str:
    """An id as a part of a path."""
    return quote(identifier, safe="", errors="surrogatepass")


def _said(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(plain(value))
