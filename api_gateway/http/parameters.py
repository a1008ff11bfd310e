"""Query parameters: an operation takes those that it declares, and refuses others as bodies refuse unknown fields."""

from __future__ import annotations

from fastapi import Request, params
from fastapi.dependencies.utils import get_flat_params
from fastapi.routing import APIRoute

from api_gateway.http.problems import MOST_ERRORS, invalid, pointer

# Clients of other dialects send parameters of versions to come, which their protocols let a server ignore.
_OWN = ("/v1/", "/internal/")

LENIENT = "takes_any_parameter"  # in a request's state: a read before a conditional write has the write's parameters


def refuse_unknown(request: Request) -> None:
    """Raise Problem 422 for query parameters that the operation does not declare. `Requires` and `require_operator` call
    it, so callers without a key learn nothing about an operation."""
    if not request.scope.get("query_string") or not request.scope["path"].startswith(_OWN):
        return
    route = request.scope.get("route")
    if not isinstance(route, APIRoute) or getattr(request.state, LENIENT, False):
        return
    known = declared(route)
    unknown = [name for name in dict.fromkeys(request.query_params) if name not in known]
    if not unknown:
        return
    detail = f"is not a parameter of this operation; it takes {', '.join(sorted(known)) or 'none'}"
    errors = [{"pointer": pointer([name]), "in": "query", "detail": detail} for name in unknown[:MOST_ERRORS]]
    names = ", ".join(error["pointer"].removeprefix("/") for error in errors)
    raise invalid(errors, detail=f"The parameters are not valid: {names}.")


def declared(route: APIRoute) -> set[str]:
    """Return the names of the query parameters of an operation and of everything that it depends on."""
    return {field.alias for field in get_flat_params(route.dependant) if isinstance(field.field_info, params.Query)}
