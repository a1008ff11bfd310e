"""The methods of each path, read from the routers: generating the OpenAPI document would take seconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute


def methods_of(routers: Iterable[tuple[str, APIRouter]]) -> dict[str, set[str]]:
    """Return the methods of each documented path of ``routers``, which are pairs of a prefix and a router."""
    found: dict[str, set[str]] = {}
    for prefix, router in routers:
        for route in router.routes:
            if isinstance(route, APIRoute) and route.include_in_schema:
                found.setdefault(prefix + route.path_format, set()).update(route.methods or ())
    return found


def methods_in(app: FastAPI) -> Mapping[str, set[str]]:
    """Return the methods that `create_app` stored, or else those of the application's own routes."""
    if not hasattr(app.state, "methods"):
        app.state.methods = methods_of([("", app.router)])
    known: Mapping[str, set[str]] = app.state.methods
    return known
