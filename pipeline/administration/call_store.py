"""Use cases that are one call of a store: the gateway may call them, and imports no store."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from pipeline.database import unit_of_work
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.tenants.revision_store import TenantRevision

Store = TypeVar("Store")
P = ParamSpec("P")
T = TypeVar("T")


def call_store(
    store: Callable[[Connection, TenantId], Store],
    method: Callable[Concatenate[Store, P], T],
    *,
    reading: bool = False,
    listing: bool = False,
) -> Callable[Concatenate[TenantId, Resources, P], T]:
    """Return a use case that calls ``method`` on a tenant's store, in a transaction of its own or, for ``reading``, in
    none; for ``listing``, as `read_list` does. It takes the tenant, the resources, and then the arguments of the
    method. A transaction that ends in Conflict is run again. Raises StoreUnavailable."""

    @unit_of_work.retry_conflicts()
    def write(tenant_id: TenantId, use: Resources, *args: P.args, **kwargs: P.kwargs) -> T:
        with unit_of_work.unit_of_work(use.mysql) as work:
            return method(store(work.connection, tenant_id), *args, **kwargs)

    @wraps(method)
    def call(tenant_id: TenantId, use: Resources, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if listing:
            return read_list(tenant_id, use, lambda connection: method(store(connection, tenant_id), *args, **kwargs))
        if reading:
            with unit_of_work.reading(use.mysql) as connection:
                return method(store(connection, tenant_id), *args, **kwargs)
        return write(tenant_id, use, *args, **kwargs)

    return call


def read_list(tenant_id: TenantId, use: Resources, ask: Callable[[Connection], T]) -> T:
    """Return the result of ``ask``, which reads the tenant's documents, chunks, namespaces or jobs and nothing else: from
    the replica if it is current. Raises StoreUnavailable."""
    copy = read_replica(tenant_id, use, ask)
    if copy is not None:
        return copy[0]
    with unit_of_work.unit_of_work(use.mysql) as work:
        return ask(work.connection)


def read_replica(tenant_id: TenantId, use: Resources, ask: Callable[[Connection], T]) -> tuple[T] | None:
    """Return the result of ``ask`` alone in a tuple, of one moment; None without a replica that shows all that the
    primary server had committed of the tenant when this call began. Raises StoreUnavailable."""
    if (replica := use.replica) is None:
        return None
    with unit_of_work.reading(use.mysql) as connection:
        revision = TenantRevision(connection, tenant_id).read()
    return replica.read(lambda own: TenantRevision(own, tenant_id).read() == revision, ask)
