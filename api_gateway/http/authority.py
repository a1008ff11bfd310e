"""Who stands behind a request and whether he may make it, asked before its route is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import Request
from fastapi.dependencies.models import Dependant

from api_gateway.http.auth import Requires, require_operator
from pipeline.records import TenantId
from pipeline.tenants.tenant_store import Principal

# No tenant can be called so; what the operator does with the installation's own key belongs to it.
INSTALLATION = TenantId("*")


def authorities(dependant: Dependant) -> Iterator[Any]:
    """The dependencies of a route that say who may use it."""
    for each in dependant.dependencies:
        if isinstance(each.call, Requires) or each.call is require_operator:
            yield each.call
        yield from authorities(each)


async def owner_of(request: Request) -> TenantId | None:
    """Return a request's owner, None for a public route. Raises the route's Problem for a refused key, and Unavailable."""
    dependant = getattr(request.scope.get("route"), "dependant", None)
    owner: TenantId | None = None
    for authority in [] if dependant is None else authorities(dependant):
        found = await (authority(request, None) if isinstance(authority, Requires) else authority(request))
        owner = found.tenant_id if isinstance(found, Principal) else INSTALLATION
    return owner
