"""The caller of a route with an API key: a parameter of the route that demands a scope."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from api_gateway.gateway import Gateway, gateway_of
from api_gateway.http.auth import Requires
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.tenants.accounts import Principal


@dataclass(frozen=True, slots=True)
class Caller:
    """A request, the principal of its key, and the gateway that serves it."""

    request: Request
    principal: Principal
    gateway: Gateway

    @property
    def tenant_id(self) -> TenantId:
        """The tenant of the key."""
        return self.principal.tenant_id

    @property
    def use(self) -> Resources:
        """The connections to the tenant's stores."""
        return self.gateway.resources

    @property
    def request_id(self) -> str:
        """The id of the request in logs and tasks."""
        request_id: str = self.request.state.request_id
        return request_id


def _with_scope(scope: str) -> Callable[..., Awaitable[Caller]]:
    async def caller(request: Request, principal: Annotated[Principal, Depends(Requires(scope))]) -> Caller:
        return Caller(request, principal, gateway_of(request))

    return caller


Reader = Annotated[Caller, Depends(_with_scope("read"))]
Writer = Annotated[Caller, Depends(_with_scope("write"))]
Admin = Annotated[Caller, Depends(_with_scope("admin"))]
