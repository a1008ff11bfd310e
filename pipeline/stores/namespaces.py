"""Namespaces: a tenant's knowledge bases, made by the first write that names them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, bindparam, text

from pipeline.records import Namespace, TenantId
from pipeline.stores.rows import as_utc, now


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceView:
    """A namespace with what searches can see in it."""

    namespace: str
    documents: int
    chunks: int
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """What a namespace shows, as a number that moves with every change of it. ``made_at`` tells a namespace from one of
    the same name that was deleted; ``revised_at`` is when the number moved last."""

    number: int
    made_at: datetime
    revised_at: datetime | None = None


class Namespaces:
    """One tenant's namespaces."""

    def __init__(self, connection: Connection, tenant_id: TenantId) -> None:
        self._connection = connection
        self._tenant_id = tenant_id

    def existing(self, names: Sequence[Namespace]) -> set[Namespace]:
        """Which of these there are."""
        statement = text(
            "SELECT namespace FROM namespaces WHERE tenant_id = :tenant AND namespace IN :names"
        ).bindparams(bindparam("names", expanding=True))
        rows = self._connection.execute(statement, {"tenant": self._tenant_id, "names": list(names)}).scalars()
        return {Namespace(name) for name in rows}

    def revisions(self, names: Sequence[Namespace]) -> dict[Namespace, Revision]:
        """How often each of these has changed; those that are not there are not in the answer."""
        rows = self._connection.execute(_REVISIONS, {"tenant": self._tenant_id, "names": list(names)})
        return {
            Namespace(row.namespace): Revision(
                number=row.revision, made_at=as_utc(row.created_at) or now(), revised_at=as_utc(row.revised_at)
            )
            for row in rows
        }

    def revise(self, namespace: Namespace) -> None:
        """Note, in the transaction that does it, that what the namespace shows changes."""
        self._connection.execute(_REVISE, {"tenant": self._tenant_id, "namespace": namespace, "now": now()})

    def living_documents(self, namespace: Namespace, *, limit: int) -> list[str]:
        """Some documents of a namespace that are shown or on their way."""
        rows = self._connection.execute(
            text(
                "SELECT document_id FROM documents WHERE tenant_id = :tenant AND namespace = :namespace"
                " AND latest_generation > deleted_generation ORDER BY document_id LIMIT :limit"
            ),
            {"tenant": self._tenant_id, "namespace": namespace, "limit": limit},
        ).scalars()
        return list(rows)

    def close(self, namespace: Namespace) -> bool:
        """Forget a namespace that holds no document any more; False, and nothing is done, if it holds one.

        Uploads that name it wait for this transaction, because every one touches the namespace's row first. What was
        replaced a moment ago may be dropped at once, as nobody is to see it any more.
        """
        values = {"tenant": self._tenant_id, "namespace": namespace}
        locked = "SELECT namespace FROM namespaces WHERE tenant_id = :tenant AND namespace = :namespace FOR UPDATE"
        self._connection.execute(text(locked), values).all()
        if self.living_documents(namespace, limit=1):
            return False
        for table in _OF_A_NAMESPACE:
            self._connection.execute(
                text(f"DELETE FROM {table} WHERE tenant_id = :tenant AND namespace = :namespace"), values
            )
        self._connection.execute(
            text(
                "UPDATE retired_generations SET due_at = :now"
                " WHERE tenant_id = :tenant AND namespace = :namespace AND due_at > :now"
            ),
            {**values, "now": now()},
        )
        return True

    def views(self, *, after: str | None = None, limit: int = 1000) -> list[NamespaceView]:
        """Namespaces in order of name, those after the given one."""
        rows = self._connection.execute(
            text(
                "SELECT n.namespace, n.chunk_count, n.created_at, (SELECT COUNT(*) FROM documents d"
                " WHERE d.tenant_id = n.tenant_id AND d.namespace = n.namespace"
                " AND d.published_generation IS NOT NULL) AS documents"
                " FROM namespaces n WHERE n.tenant_id = :tenant AND n.namespace > :after"
                " ORDER BY n.namespace LIMIT :limit"
            ),
            {"tenant": self._tenant_id, "after": after or "", "limit": limit},
        )
        return [
            NamespaceView(
                namespace=row.namespace,
                documents=row.documents,
                chunks=row.chunk_count,
                created_at=as_utc(row.created_at) or now(),
            )
            for row in rows
        ]


# What goes with a namespace; the namespace itself goes last.
_OF_A_NAMESPACE = (
    "term_changes",
    "term_statistics",
    "import_parts",
    "entity_states",
    "feedback",
    "attachments",
    "vector_stores",
    "namespaces",
)

_REVISIONS = text(
    "SELECT namespace, revision, created_at, revised_at FROM namespaces"
    " WHERE tenant_id = :tenant AND namespace IN :names"
).bindparams(bindparam("names", expanding=True))

_REVISE = text(
    "UPDATE namespaces SET revision = revision + 1, revised_at = :now"
    " WHERE tenant_id = :tenant AND namespace = :namespace"
)
