"""Methods and query parameters of operations, read from the routes: generating the OpenAPI document would take seconds."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from fastapi import APIRouter, FastAPI, Request, params
from fastapi.dependencies.utils import get_flat_params
from fastapi.routing import APIRoute

from api_gateway.http.problems import MOST_ERRORS, invalid, pointer


def methods_of(routers: Iterable[tuple[str, APIRouter]]) -> dict[str, set[str]]:
    """Return the methods of each documented path of ``routers``, which are pairs of a prefix and a router."""
    methods: defaultdict[str, set[str]] = defaultdict(set)
    for prefix, router in routers:
        for route in router.routes:
            if isinstance(route, APIRoute) and route.include_in_schema:
                methods[prefix + route.path_format].update(route.methods or ())
    return dict(methods)


def methods_in(app: FastAPI) -> Mapping[str, set[str]]:
    """Return the methods that `create_app` stored, or else those of the application's own routes."""
    if not hasattr(app.state, "methods"):
        app.state.methods = methods_of([("", app.router)])
    methods: Mapping[str, set[str]] = app.state.methods
    return methods


# Clients of other dialects send parameters of later versions, which their protocols allow a server to ignore.
_OWN = ("/v1/", "/internal/")

LENIENT = "takes_any_parameter"  # in a request's state: a read ahead of a conditional write has the write's parameters


def refuse_unknown(request: Request) -> None:
    """Raise Problem 422 for query parameters that the operation does not declare. `Requires` and `require_operator` call
    it, so callers without a key learn nothing about an operation."""
    if not request.scope.get("query_string") or not request.scope["path"].startswith(_OWN):
        return
    route = request.scope.get("route")
    if not isinstance(route, APIRoute) or getattr(request.state, LENIENT, False):
        return
    parameters = declared(route)
    unknown = [name for name in dict.fromkeys(request.query_params) if name not in parameters]
    if not unknown:
        return
    detail = f"is not a parameter of this operation; it takes {', '.join(sorted(parameters)) or 'none'}"
    errors = [{"pointer": pointer([name]), "in": "query", "detail": detail} for name in unknown[:MOST_ERRORS]]
    names = ", ".join(error["pointer"].removeprefix("/") for error in errors)
    raise invalid(errors, detail=f"The parameters are not valid: {names}.")


def declared(route: APIRoute) -> set[str]:
    """Return the names of the query parameters of an operation and of all its dependencies."""
    return {field.alias for field in get_flat_params(route.dependant) if isinstance(field.field_info, params.Query)}
