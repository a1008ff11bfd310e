"""This host's keyword index at the revision a query must see, for all channels that read it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import Connection, Engine

from pipeline.channels.local_indexes import IndexAtRevision, LocalIndexes
from pipeline.database.unit_of_work import read_soon
from pipeline.errors import Unavailable
from pipeline.filters.index_filters import clause_of
from pipeline.keyword_index.index_faults import IndexDamaged
from pipeline.query.request import Query
from pipeline.records import Namespace
from pipeline.semantic.search_plan import PassingChunks
from pipeline.tenants.namespace_store import Namespaces

T = TypeVar("T")

_PATIENCE_S = 0.25  # for comparing an index with the revisions and changes in MySQL


@dataclass(frozen=True, slots=True)
class HostIndex:
    """The keyword indexes of this host. ``indexes`` is None where the installation has none (engine ``mysql``)."""

    mysql: Engine
    indexes: LocalIndexes | None

    def current(self, query: Query) -> IndexAtRevision | None:
        """Return the tenant's index at the revision that the query must see, with the documents that changed since the
        index was written; None if it is missing or too far behind. Raises StoreUnavailable."""
        if self.indexes is None:
            return None
        stamps = query.stamps or self._soon(lambda connection: _stamps(connection, query))
        stamps = {namespace: stamps[namespace] for namespace in query.namespaces if namespace in stamps}
        return self.indexes.at(query.tenant_id, stamps, self._soon)

    def current_or_last(self, query: Query) -> IndexAtRevision | None:
        """Return the current index, or the index as it is while MySQL is not answering. Raises StoreUnavailable if that
        has none of the query's namespaces."""
        try:
            return self.current(query)
        except Unavailable:
            last = None if self.indexes is None else self.indexes.last_known(query.tenant_id, query.namespaces)
            if last is None:
                raise
            return last

    def passing(self, query: Query, namespaces: Sequence[Namespace], *, limit: int) -> PassingChunks | None:
        """Return the chunks of these namespaces that pass the query's filters, if there are at most ``limit``.

        None if there are more, if the filters cannot be expressed as terms, or if the index is not current or not readable.
        """
        clause = clause_of(query.filters)
        if clause is None or self.indexes is None:
            return None
        try:
            index = self.current(query)
            if index is None:
                return None
            chunk_ids = index.view.passing(namespaces, clause, limit=limit, without=index.changed)
        except IndexDamaged:
            self.indexes.distrust(query.tenant_id)
            return None
        except Unavailable:
            return None
        return None if chunk_ids is None else PassingChunks(chunk_ids=chunk_ids, changed=index.changed)

    def distrust(self, query: Query) -> None:
        """Mark the tenant's index as damaged, so that the indexer rebuilds it."""
        if self.indexes is not None:
            self.indexes.distrust(query.tenant_id)

    def _soon(self, ask: Callable[[Connection], T]) -> T:
        return read_soon(self.mysql, ask, seconds=_PATIENCE_S)


def _stamps(connection: Connection, query: Query) -> dict[Namespace, str]:
    revisions = Namespaces(connection, query.tenant_id).revisions(query.namespaces)
    return {namespace: revision.stamp for namespace, revision in revisions.items()}
