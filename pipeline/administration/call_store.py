"""Use cases that are one call of a store. The gateway itself names only the stores that read: `*_view_store`."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from pipeline.database import unit_of_work
from pipeline.records import TenantId
from pipeline.resources import Resources

Store = TypeVar("Store")
P = ParamSpec("P")
T = TypeVar("T")


def call_store(
    store: Callable[[Connection, TenantId], Store],
    method: Callable[Concatenate[Store, P], T],
    *,
    reading: bool = False,
) -> Callable[Concatenate[TenantId, Resources, P], T]:
    """Return a use case that calls ``method`` on a tenant's store, in a transaction of its own or, for ``reading``, in
    none. It takes the tenant, the resources, and then the arguments of the method. A transaction that ends in Conflict
    is run again. Raises StoreUnavailable."""

    @unit_of_work.retry_conflicts()
    def write(tenant_id: TenantId, use: Resources, *args: P.args, **kwargs: P.kwargs) -> T:
        with unit_of_work.unit_of_work(use.mysql) as work:
            return method(store(work.connection, tenant_id), *args, **kwargs)

    @wraps(method)
    def call(tenant_id: TenantId, use: Resources, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if reading:
            with unit_of_work.reading(use.mysql) as connection:
                return method(store(connection, tenant_id), *args, **kwargs)
        return write(tenant_id, use, *args, **kwargs)

    return call


def read_view(
    store: Callable[[Connection, TenantId], Store],
    tenant_id: TenantId,
    use: Resources,
    read: Callable[Concatenate[Store, P], T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Return what ``read``, such as a method of it, reads from a tenant's view store, in a transaction of its own. Raises
    StoreUnavailable."""
    with unit_of_work.unit_of_work(use.mysql) as work:
        return read(store(work.connection, tenant_id), *args, **kwargs)
