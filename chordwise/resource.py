"""The base of every resource's operations, and how an operation becomes a method of both clients."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Mapping
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, TypeVar, overload
from urllib.parse import quote

from chordwise.errors import InvalidInput, Timeout, UnexpectedAnswer
from chordwise.records import decode
from chordwise.retries import RetryPolicy, exchange
from chordwise.transport import Answer, Call, Steps, encode, plain

if TYPE_CHECKING:
    from chordwise.async_client import AsyncChordwise
    from chordwise.client import Chordwise

P = ParamSpec("P")
T = TypeVar("T")
LONGEST_HOLD_S: Final = 10.0  # the longest wait for a job or a query that one request asks of the server
_SHORTEST_ROUND_S: Final = 0.25  # between two polls, should the server answer at once instead of waiting
_PER_PAGE = 100


class operation(Generic[P, T]):  # noqa: N801 - a decorator, lower case like property
    """Make a generator of calls a method: it blocks in ``Chordwise``, is a coroutine function in ``AsyncChordwise``, and
    stays a generator in plain ``Operations``. Name, parameters and docstring are the generator's."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        self._steps = steps
        self._by_owner: dict[type, Callable[..., Any]] = {}

    @overload
    def __get__(self, client: Chordwise, owner: Any) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncChordwise, owner: Any) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, client: Resource, owner: Any) -> Callable[P, Steps[T]]: ...
    @overload
    def __get__(self, client: None, owner: Any) -> Callable[..., Any]: ...
    def __get__(self, client: Any, owner: Any) -> Any:
        function = self._by_owner.get(owner)
        if function is None:
            function = self._by_owner[owner] = self._method_of(owner)
        return function if client is None else MethodType(function, client)

    def _method_of(self, owner: Any) -> Callable[..., Any]:
        steps, run = self._steps, getattr(owner, "_run", None)
        if run is None:
            return steps

        @functools.wraps(steps)
        def call(client: Chordwise, *args: P.args, **kwargs: P.kwargs) -> T:
            return client._run(steps(client, *args, **kwargs))

        @functools.wraps(steps)
        async def await_call(client: AsyncChordwise, *args: P.args, **kwargs: P.kwargs) -> T:
            return await client._run(steps(client, *args, **kwargs))

        method: Any = await_call if inspect.iscoroutinefunction(run) else call
        signature = inspect.signature(steps)
        result = str(signature.return_annotation).removeprefix("Steps[").removesuffix("]")
        method.__signature__ = signature.replace(return_annotation=result)
        return method  # type: ignore[no-any-return]


class Resource:
    """Requests, pages and polls, for the operations of one resource. Times are in seconds."""

    _policy: RetryPolicy
    _timeout_s: float
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
        """Send one request with a JSON ``body`` or with ``content``; parameters that are None are left out. ``details``
        are other fields of Call. Raises InvalidInput for a body that is not JSON."""
        call = Call(
            method=method,
            path=path,
            params=parameters(params or {}),
            headers=headers or {},
            content=content if body is None else as_content(body),
            **details,
        )
        return exchange(call, self._policy, clock=self._clock)

    def _one(self, kind: type[T], method: str, path: str, **details: Any) -> Steps[T]:
        """Send a request as ``_request`` does and decode its answer."""
        return decode(kind, (yield from self._request(method, path, **details)).json())

    def _list(self, kind: type[T], path: str, params: Mapping[str, Any] | None = None) -> Steps[list[T]]:
        """Return a list that comes in one page."""
        return entries(kind, (yield from self._request("GET", path, params=params)).json(), path)

    def _bytes(self, path: str, params: Mapping[str, Any] | None = None) -> Steps[bytes]:
        """Return the content of an answer that is no JSON."""
        return (yield from self._request("GET", path, params=params)).content

    def _delete(self, path: str, **details: Any) -> Steps[None]:
        """Send a request to delete, and ignore its answer."""
        yield from self._request("DELETE", path, **details)

    def _pages(
        self,
        kind: type[T],
        path: str,
        params: Mapping[str, Any] | None = None,
        *,
        limit: int | None = None,
        at_most: int = _PER_PAGE,
    ) -> Steps[list[T]]:
        """Follow the cursor until ``limit`` entries, or all, are read. Only the first page is asked with an ``offset``."""
        filters = dict(params or {})
        records: list[T] = []
        cursor: str | None = None
        while limit is None or len(records) < limit:
            size = at_most if limit is None else min(at_most, limit - len(records))
            page_params = {**filters, "limit": size, "cursor": cursor}
            records += entries(kind, page := (yield from self._request("GET", path, params=page_params)).json(), path)
            cursor = page.get("next_cursor")
            if not cursor:
                break
            filters.pop("offset", None)
        return records[:limit]

    def _pause_between_polls(self, began: float, deadline: float, subject: str, status: str) -> Steps[None]:
        """Wait before the next poll; ``began`` is the start of the last one. Raises Timeout once the deadline has passed."""
        now = self._clock()
        if now >= deadline:
            raise Timeout(f"{subject} is still {status}; the server continues with it")
        if now - began < _SHORTEST_ROUND_S:
            yield min(_SHORTEST_ROUND_S, deadline - now)


def entries(kind: type[T], page: Any, path: str, name: str = "data") -> list[T]:
    """Decode the list ``name`` of an answer. Raises UnexpectedAnswer if there is none."""
    if not isinstance(page, dict) or not isinstance(page.get(name), list):
        raise UnexpectedAnswer(f"{path} does not answer with a list")
    return [decode(kind, entry) for entry in page[name]]


def as_content(body: Mapping[str, Any], noun: str = "request") -> bytes:
    """Encode a body. Raises InvalidInput, naming it by ``noun``, if it is not JSON."""
    try:
        return encode(body)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the {noun} is not JSON: {error}") from error


def parameters(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return query parameters; those that are None are left out, those with several values repeated."""
    lists = ((name, value if isinstance(value, list | tuple) else [value]) for name, value in values.items())
    return tuple((name, _parameter(value)) for name, items in lists for value in items if value is not None)


def path(*segments: str) -> str:
    """Return the path of a resource from its segments; ids are escaped."""
    return "/".join(("/v1", *(quote(segment, safe="", errors="surrogatepass") for segment in segments)))


def given(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def _parameter(value: Any) -> str:
    if isinstance(value, Mapping):
        return as_content({name: plain(item) for name, item in value.items()}).decode()
    return str(value).lower() if isinstance(value, bool) else str(plain(value))
