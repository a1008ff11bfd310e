"""Namespaces as vector stores: name, notes and expiry. One without a row uses the namespace's name and does not expire."""

import json
from collections.abc import Collection
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection

from pipeline.database.mysql_tables import vector_stores
from pipeline.database.rows import TenantStore, as_utc, now, record_of, to_json, to_naive
from pipeline.database.statements import TenantsWith, sql
from pipeline.records import Namespace, TenantId
from pipeline.vector_stores.collection import ListPosition, VectorStore

_ACTIVE_AGAIN_S = 60  # frequent searches do not write each time


class VectorStores(TenantStore):
    """One tenant's namespaces as vector stores."""

    def open(self, store: VectorStore) -> None:
        """Create a namespace, if it does not exist, and store its name."""
        self._run(_NAMESPACE, namespace=store.namespace, created=to_naive(store.created_at))
        self.put(store)

    def put(self, store: VectorStore) -> None:
        """Store the description of an existing namespace."""
        days, active_at = store.expires_after_days, store.last_active_at
        values = {
            "name": store.name,
            "description": store.description,
            "metadata": to_json(dict(store.metadata)),
            "expires_after_days": days,
            "last_active_at": to_naive(active_at),
            "expires_at": None if days is None else to_naive(active_at + timedelta(days=days)),
        }
        self._upsert(vector_stores, {"namespace": store.namespace}, values)

    def one(self, namespace: Namespace, *, lock: bool = False) -> VectorStore | None:
        """Return a namespace as a vector store, or None if there is none."""
        statement = f"{_SELECT} AND n.namespace = :namespace" + (" FOR UPDATE" if lock else "")
        row = self._run(statement, namespace=namespace).one_or_none()
        return None if row is None else _store(row)

    def page(self, *, position: ListPosition | None, newest_first: bool, limit: int) -> list[VectorStore]:
        """Return namespaces by the time they were created."""
        backwards = position is not None and position.backwards
        sign, order = ("<", "DESC") if newest_first != backwards else (">", "ASC")
        values: dict[str, Any] = {"limit": limit}
        where = ""
        if position is not None:
            where = f"AND (n.created_at {sign} :at OR (n.created_at = :at AND n.namespace {sign} :name))"
            values |= {"at": to_naive(position.at), "name": position.name}
        statement = f"{_SELECT} {where} ORDER BY n.created_at {order}, n.namespace {order} LIMIT :limit"
        stores = [_store(row) for row in self._run(statement, **values)]
        return stores[::-1] if backwards else stores

    def touch(self, namespaces: Collection[Namespace]) -> None:
        """Record the use of these, each at most once a minute; expired ones stay expired."""
        moment = now()
        times = {"now": moment, "before": moment - timedelta(seconds=_ACTIVE_AGAIN_S)}
        # An UPDATE that changes nothing waits for locks all the same.
        if idle := list(self._run(_IDLE, names=list(namespaces), **times).scalars()):
            self._run(_TOUCH, names=idle, **times)

    def lock_expired(self, namespace: Namespace) -> bool:
        """Lock a store until the transaction ends if it has expired and was not emptied since; return whether it has."""
        return self._run(_LOCK_EXPIRED, namespace=namespace, now=now()).first() is not None

    def mark_emptied(self, namespace: Namespace) -> None:
        """Record that an expired one was emptied."""
        self._run(_EMPTIED, namespace=namespace, now=now())


def expired_stores(connection: Connection, *, limit: int) -> list[tuple[TenantId, Namespace]]:
    """Return expired vector stores with content, of every tenant."""
    rows = connection.execute(_EXPIRED, {"now": now(), "limit": limit})
    return [(TenantId(row.tenant_id), Namespace(row.namespace)) for row in rows]


_SELECT = (
    "SELECT n.namespace, n.created_at, n.revised_at, v.name, v.description, v.metadata, v.expires_after_days,"
    " v.last_active_at, v.expires_at FROM namespaces n"
    " LEFT JOIN vector_stores v ON v.tenant_id = n.tenant_id AND v.namespace = n.namespace WHERE n.tenant_id = :tenant"
)
_NAMESPACE = sql(
    "INSERT IGNORE INTO namespaces (tenant_id, namespace, created_at) VALUES (:tenant, :namespace, :created)"
)
_AMONG_THE_IDLE = (
    " WHERE tenant_id = :tenant AND namespace IN :names AND last_active_at < :before"
    " AND (expires_at IS NULL OR expires_at > :now)"
)
_IDLE = sql(f"SELECT namespace FROM vector_stores{_AMONG_THE_IDLE}")
_TOUCH = sql(
    "UPDATE vector_stores SET expires_at = DATE_ADD(:now, INTERVAL expires_after_days DAY), last_active_at = :now"
    f"{_AMONG_THE_IDLE}"
)
_EMPTIED = sql("UPDATE vector_stores SET emptied_at = :now WHERE tenant_id = :tenant AND namespace = :namespace")
_LOCK_EXPIRED = sql(
    "SELECT 1 FROM vector_stores WHERE tenant_id = :tenant AND namespace = :namespace"
    " AND expires_at <= :now AND (emptied_at IS NULL OR emptied_at < expires_at) FOR UPDATE"
)
_HAVE_EXPIRED = (
    "FROM vector_stores s WHERE s.expires_at <= :now AND (s.emptied_at IS NULL OR s.emptied_at < s.expires_at)"
)
_EXPIRED = sql(f"SELECT s.tenant_id, s.namespace {_HAVE_EXPIRED} ORDER BY s.expires_at LIMIT :limit")

tenants_with_expired_stores = TenantsWith(f"SELECT DISTINCT s.tenant_id {_HAVE_EXPIRED}")


def _store(row: Any) -> VectorStore:
    return record_of(
        VectorStore,
        row,
        name=row.namespace if row.name is None else row.name,
        metadata={} if row.metadata is None else json.loads(row.metadata),
        last_active_at=as_utc(row.last_active_at or row.revised_at or row.created_at),
    )
