"""The caller of a route with an API key: a parameter of the route that demands a scope."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar

from fastapi import Depends, Request

from api_gateway.gateway import Gateway, gateway_of
from api_gateway.http.auth import LimitedCallers, Requires
from pipeline.administration.call_store import read_view
from pipeline.filters.readers import Principals
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.tenants.accounts import Principal

Store = TypeVar("Store")
T = TypeVar("T")
P = ParamSpec("P")


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
    def reads_as(self) -> Principals:
        """The principals by which the caller sees documents; None sees every document of the tenant."""
        return self.principal.reads_as

    @property
    def use(self) -> Resources:
        """The connections to the tenant's stores."""
        return self.gateway.resources

    @property
    def request_id(self) -> str:
        """The id of the request in logs and tasks."""
        request_id: str = self.request.state.request_id
        return request_id

    def read(
        self,
        store: Callable[[Any, TenantId], Store],
        read: Callable[Concatenate[Store, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return what ``read``, such as a method of it, reads from a view store of the tenant. Blocking."""
        return read_view(store, self.tenant_id, self.use, read, *args, **kwargs)


def _with_scope(scope: str, *, limited: LimitedCallers = "filtered") -> Callable[..., Awaitable[Caller]]:
    async def caller(
        request: Request, principal: Annotated[Principal, Depends(Requires(scope, limited=limited))]
    ) -> Caller:
        return Caller(request, principal, gateway_of(request))

    return caller


# Of routes that tell no more of documents than the caller may read.
Reader = Annotated[Caller, Depends(_with_scope("read"))]
# Of routes that name every document handed in: callers who may not read some of them need the scope write.
JobReader = Annotated[Caller, Depends(_with_scope("read", limited="writers"))]
# Of routes that show or count every document: closed to callers who may not read some of them.
FullReader = Annotated[Caller, Depends(_with_scope("read", limited="refused"))]
Writer = Annotated[Caller, Depends(_with_scope("write"))]
Admin = Annotated[Caller, Depends(_with_scope("admin"))]
FullAdmin = Annotated[Caller, Depends(_with_scope("admin", limited="refused"))]
