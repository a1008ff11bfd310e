"""Parts that routes share: the gateway as a parameter, look-ups that answer 404, validated values and pages of lists."""

import uuid
from collections.abc import Callable, Hashable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, TypeVar

from fastapi import APIRouter, Depends, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError

from api_gateway.gateway import Gateway, gateway_of
from api_gateway.http import cursors
from api_gateway.http.auth import require_same_tenant
from api_gateway.http.bodies import Decoded, decode_json, read_json_body, refuse_flaws
from api_gateway.http.caller import Caller
from api_gateway.http.fields import Body, Shape
from api_gateway.http.problems import Problem, invalid, places
from api_gateway.http.responses import page_response
from api_gateway.http.route_descriptions import Parameter, json_body, reference
from pipeline.tenants.accounts import Principal

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
W = TypeVar("W", bound=Body)


MOST_SHAPE_BYTES: Final = 64 * 1024 * 1024  # of a body that is not an upload; room for a dictionary of 10,000 groups
_AT_ONCE_BYTES: Final = 256 * 1024  # a larger body is parsed in a thread, off the event loop

Since = Annotated[datetime | None, Parameter(description="Only from this moment on, RFC 3339.")]
Until = Annotated[datetime | None, Parameter(description="Only before this moment, RFC 3339.")]


async def _current_gateway(request: Request) -> Gateway:
    return gateway_of(request)  # in a coroutine, because FastAPI calls plain functions in a thread


CurrentGateway = Annotated[Gateway, Depends(_current_gateway)]


class Page(Shape, Generic[T]):
    """The base of pages of a list; `next_cursor` is null on the last one."""

    data: list[T]
    next_cursor: str | None


class CompleteList(Shape, Generic[T]):
    """The base of lists that are sent in one piece."""

    data: list[T]
    next_cursor: None


def send_page(
    rows: Sequence[T],
    limit: int,
    kind: str,
    position: Callable[[T], tuple[str | int | datetime, ...]],
    convert: Callable[[T], object] = lambda row: row,
) -> Response:
    """Return one page of up to ``limit + 1`` rows, as they are or as ``convert`` returns them. The cursor after it is the
    ``position`` of its last row in the list called ``kind``."""
    page, following = cursors.page(rows, limit, lambda last: cursors.encode(kind, *position(last)))
    return page_response([convert(row) for row in page], following)


def existing(result: T | None, problem: Problem) -> T:
    """Return what a look-up or a change returned. Raises ``problem`` for None and False: there is no such object."""
    if result is None or result is False:
        raise problem
    return result


def deleted(result: object, problem: Problem) -> Response:
    """Return 204 for what a deletion returned. Raises ``problem`` for None and False: there was no such object."""
    existing(result, problem)
    return Response(status_code=204)


def time_span(since: datetime | None, until: datetime | None) -> tuple[datetime | None, datetime | None]:
    """Return both times; one without a zone counts as UTC. Raises Problem(422) for a span that ends before it begins."""
    begins, ends = (time if time is None or time.tzinfo else time.replace(tzinfo=UTC) for time in (since, until))
    if begins is not None and ends is not None and ends < begins:
        raise invalid([{"pointer": "/until", "in": "query", "detail": "lies before since"}])
    return begins, ends


def parse(read: Callable[[str], T], text: str, problem: Problem) -> T:
    """Return what ``read`` makes of a text. Raises ``problem`` where that raises ValueError."""
    try:
        return read(text)
    except ValueError:
        raise problem from None


def parse_uuid(text: str, problem: Problem) -> str:
    """Return a UUID in its usual form. Raises ``problem`` for an invalid one."""
    return str(parse(uuid.UUID, text, problem))


def refuse_repeated(keys: Sequence[Hashable], pointer: str, detail: str) -> None:
    """Raise Problem(422) for keys that stand earlier in the list too; ``pointer`` has ``{}`` for their index."""
    first: dict[Hashable, int] = {}
    repeated = [index for index, key in enumerate(keys) if first.setdefault(key, index) != index]
    if repeated:
        raise invalid([{"pointer": pointer.format(index), "detail": detail} for index in repeated])


def validated(shape: type[M], value: Any) -> M:
    """Return the value as ``shape``. Raises Problem(422) with the locations at fault."""
    try:
        return shape.model_validate(value)
    except ValidationError as error:
        raise invalid(places(error)) from None


async def read_object(caller: Caller, limit: int) -> Decoded:
    """Return a JSON body of up to ``limit`` bytes, capped by the installation's limit. Raises Problem."""
    capped = min(limit, caller.gateway.settings.max_body_bytes)
    return decode_own(await read_json_body(caller.request, capped), caller.principal)


async def read_shape(request: Request, shape: type[W], *, principal: Principal | None = None) -> W:
    """Return the body as ``shape``. Without a ``principal``, it may name any tenant. Raises Problem."""
    gateway = gateway_of(request)
    body = await read_json_body(request, min(shape.most_bytes, gateway.settings.max_body_bytes))
    if len(body) <= _AT_ONCE_BYTES:
        return _shaped(body, principal, shape)
    return await gateway.run_heavy(_shaped, body, principal, shape)


class JsonBody(Generic[W]):
    """A dependency that returns the JSON body of a request, read once those before it have checked the key; FastAPI would
    read it first. ``own``: it may name no other tenant than that of the key."""

    def __init__(self, shape: type[W], *, own: bool) -> None:
        self.description = json_body(shape, shape.example)
        self._shape, self._own = shape, own

    async def __call__(self, request: Request) -> W:
        """Read the body. Raises Problem."""
        principal = request.state.principal if self._own else None
        return await read_shape(request, self._shape, principal=principal)


if TYPE_CHECKING:
    Json = Annotated[W, "a body of the caller's tenant"]
    OperatorJson = Annotated[W, "a body that may name any tenant"]
else:

    class Json:
        """The type of a parameter with the JSON body, after the caller: ``Json[SomeRequest]``."""

        def __class_getitem__(cls, shape):
            return Annotated[shape, Depends(JsonBody(shape, own=True))]

    class OperatorJson:
        """The same for a body that may name any tenant."""

        def __class_getitem__(cls, shape):
            return Annotated[shape, Depends(JsonBody(shape, own=False))]


def describe_bodies(router: APIRouter) -> None:
    """Add the bodies of a router's `Json` parameters to its description."""
    for route in router.routes:
        if not isinstance(route, APIRoute):
            continue
        for dependency in route.dependant.dependencies:
            if isinstance(dependency.call, JsonBody):
                route.openapi_extra = {**dependency.call.description, **(route.openapi_extra or {})}


def _shaped(body: bytes, principal: Principal | None, shape: type[M]) -> M:
    return validated(shape, refuse_flaws(decode_own(body, principal)))


def decode_own(body: bytes, principal: Principal | None) -> Decoded:
    """Parse a JSON object. Raises Problem, also if it names another tenant than its key."""
    decoded = decode_json(body)
    if principal is not None:
        require_same_tenant(principal, decoded.value.get("tenant_id"))
    return decoded


def file_form(shape: type[BaseModel], *, many: bool = False) -> dict[str, Any]:
    """Return the description of a multipart body: the fields of ``shape``, and one file or ``many``."""
    file: dict[str, Any] = {"type": "string", "format": "binary"}
    if many:
        file = {"type": "array", "items": file}
    parts = {"type": "object", "required": ["file"], "properties": {"file": file}}
    return {"multipart/form-data": {"schema": {"allOf": [reference(shape), parts]}}}


def media_type_of_body(request: Request) -> str:
    """Return the media type of the body in lower case, without parameters; empty if the request names none."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def require_media_type(request: Request, media_type: str) -> None:
    """Raise Problem(415) for a body of another media type."""
    sent = media_type_of_body(request)
    if sent != media_type:
        detail = f"This route does not take a body of type {sent or 'unknown'}; it takes {media_type}."
        raise Problem(415, "unsupported_media_type", detail)
