"""This host's keyword indexes at the revision a query must see, or with the missing documents named."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import structlog
from cachetools import TTLCache
from sqlalchemy import Connection, Engine

from pipeline.database.unit_of_work import read_soon
from pipeline.deadline import Deadline
from pipeline.errors import Unavailable
from pipeline.filters.index_filters import clause_of
from pipeline.keyword.fulltext_store import KeywordIndex
from pipeline.keyword_index.host_words import MOST_CHANGED_CHUNKS, IndexAtRevision
from pipeline.keyword_index.index_faults import IndexDamaged
from pipeline.keyword_index.index_folder import IndexFolder
from pipeline.keyword_index.index_search import IndexView
from pipeline.keyword_index.indexed_chunk_store import NamespaceState
from pipeline.keyword_index.local_index_store import LocalIndexReader
from pipeline.outages import replace_in_outage
from pipeline.query.request import Query
from pipeline.records import DocumentId, Namespace, TenantId
from pipeline.semantic.search_plan import PassingChunks
from pipeline.tenants.namespace_store import Namespaces, Publications

log = structlog.get_logger(__name__)

Changed = tuple[tuple[Namespace, DocumentId], ...]
AskMysql = Callable[[Callable[[Connection], "Changed | None"]], "Changed | None"]

_MOST_OPEN = 128  # tenants whose index a process keeps open
_IDLE_S = 120.0  # seconds without a query until it is closed: an open index keeps merged and erased files on disk
_LOOKED_AGAIN_S = 0.005
_MOST_AWAITED = 4  # revisions; an index further behind is catching up with a load
_FEW_CHANGED = 20  # documents; reading these from MySQL takes less time than waiting for the indexer
_MOST_CHANGED = 200  # documents; reading more from MySQL costs more than a search there
_LEAST_INDEXED = 20  # chunks for each changed document; with fewer its frequencies do not represent the namespace


@dataclass(slots=True)
class _OpenIndex:
    """A tenant's open index. ``in_vain``: the stamps that a query has waited for in vain."""

    reader: LocalIndexReader
    in_vain: Mapping[Namespace, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _IndexState:
    """A tenant's index at one moment. ``behind``: the stamps that it has not reached."""

    view: IndexView | None
    states: Mapping[Namespace, NamespaceState]
    behind: Mapping[Namespace, str]

    def changed(self, tenant_id: TenantId, ask: AskMysql) -> Changed | None:
        """Return the documents that changed since; None if unknown, or too many. Raises StoreUnavailable."""
        if not self.behind:
            return ()
        late = [self.states[namespace] for namespace in self.behind if namespace in self.states]
        if len(late) < len(self.behind):
            return None
        return ask(lambda connection: _changed(connection, tenant_id, late))


class LocalIndexes:
    """The indexes below ``root``, kept open while in use; a query waits ``wait_s`` for the indexer. Thread-safe."""

    def __init__(self, root: Path, *, wait_s: float = 0.15, sleep: Callable[[float], None] = time.sleep) -> None:
        self._root = root
        self._folder = IndexFolder(root)
        self._wait_s = wait_s
        self._sleep = sleep
        self._lock = threading.Lock()
        self._open: TTLCache[TenantId, _OpenIndex] = TTLCache(_MOST_OPEN, _IDLE_S)

    def at(self, tenant_id: TenantId, stamps: Mapping[Namespace, str], ask: AskMysql) -> IndexAtRevision | None:
        """Return the index at these stamps, or at an older one with the documents that changed since; None where it is
        missing, lacks a namespace, or is too far behind. Waits for the indexer if many changed. Raises
        StoreUnavailable."""
        tenant = self._tenant(tenant_id)
        state = _state_of(tenant, stamps)
        if state.behind:
            self.wake()
        changed = state.changed(tenant_id, ask)
        if (changed is None or len(changed) > _FEW_CHANGED) and self._is_coming(tenant, state):
            state = self._awaited(tenant, stamps)
            changed = state.changed(tenant_id, ask)
        return (
            None
            if state.view is None or changed is None
            else IndexAtRevision(view=state.view, states=state.states, changed=changed)
        )

    def wake(self) -> None:
        """Have this host's indexer look for changes now: its pauses grow while there are none."""
        self._folder.wake()

    def distrust(self, tenant_id: TenantId) -> None:
        """Mark a tenant's index as damaged, so that the indexer rebuilds it; until then MySQL answers."""
        log.warning("keyword_index_damaged", tenant_id=tenant_id)
        self._tenant(tenant_id).reader.distrust()
        self.wake()

    def last_known(self, tenant_id: TenantId, namespaces: Sequence[Namespace]) -> IndexAtRevision | None:
        """Return the index as it is, for those of the namespaces that it has; None without any. Makes no calls."""
        view = self._tenant(tenant_id).reader.view()
        known_states = {} if view is None else {namespace: view.state(namespace) for namespace in namespaces}
        states = {namespace: state for namespace, state in known_states.items() if state is not None}
        if view is None or not states:
            return None
        return IndexAtRevision(view=view, states=states, is_current=False, behind_s=self._folder.behind_s())

    def _is_coming(self, tenant: _OpenIndex, state: _IndexState) -> bool:
        """Return whether an indexer is expected to reach the revision soon."""
        if not self._wait_s or all(tenant.in_vain.get(namespace) == stamp for namespace, stamp in state.behind.items()):
            return False
        is_near = all(
            _gap(state.states.get(namespace), stamp) <= _MOST_AWAITED for namespace, stamp in state.behind.items()
        )
        return is_near and self._folder.is_served()

    def _awaited(self, tenant: _OpenIndex, stamps: Mapping[Namespace, str]) -> _IndexState:
        """Look at the index until it has reached these stamps or the waiting time is over."""
        deadline = Deadline.after(self._wait_s)
        while (state := _state_of(tenant, stamps)).behind and not deadline.has_passed:
            self._sleep(_LOOKED_AGAIN_S)
        tenant.in_vain = state.behind or tenant.in_vain
        return state

    def _tenant(self, tenant_id: TenantId) -> _OpenIndex:
        with self._lock:
            tenant = self._open.get(tenant_id) or _OpenIndex(LocalIndexReader(self._root, tenant_id))
            self._open[tenant_id] = tenant  # each use restarts its time
            return tenant


def _state_of(tenant: _OpenIndex, stamps: Mapping[Namespace, str]) -> _IndexState:
    view = tenant.reader.view()
    known_states = {namespace: None if view is None else view.state(namespace) for namespace in stamps}
    states = {namespace: state for namespace, state in known_states.items() if state is not None}
    behind = {
        namespace: stamp
        for namespace, stamp in stamps.items()
        if namespace not in states or not states[namespace].has(stamp)
    }
    return _IndexState(view, states, behind)


def _gap(state: NamespaceState | None, stamp: str) -> int:
    return int(stamp.partition("@")[0]) - (0 if state is None else state.revision)


def _changed(
    connection: Connection, tenant_id: TenantId, states: Sequence[NamespaceState]
) -> tuple[tuple[Namespace, DocumentId], ...] | None:
    changed: list[tuple[Namespace, DocumentId]] = []
    chunk_count, index = 0, KeywordIndex(connection, tenant_id)
    for state in states:
        ids, are_all = Publications(connection, tenant_id).since(state.namespace, state.revision, state.revised_at)
        changed += ((state.namespace, document_id) for document_id in ids)
        if not are_all or len(changed) > _MOST_CHANGED:
            return None
        chunk_count += index.chunk_count(state.namespace, ids)
        if chunk_count > MOST_CHANGED_CHUNKS:
            return None
    return None if len(changed) * _LEAST_INDEXED > sum(state.chunk_count for state in states) else tuple(changed)


T = TypeVar("T")

_PATIENCE_S = 0.25  # for comparing an index with the revisions and changes in MySQL


@dataclass(frozen=True, slots=True)
class HostIndex:
    """The keyword indexes of this host. ``indexes`` is None where the installation has none (engine ``mysql``)."""

    mysql: Engine
    indexes: LocalIndexes | None

    def current(self, query: Query) -> IndexAtRevision | None:
        """Return the index at the query's revision; None if it is missing or too far behind. Raises
        StoreUnavailable."""
        if self.indexes is None:
            return None
        stamps = query.stamps or self._soon(lambda connection: _stamps(connection, query))
        stamps = {namespace: stamps[namespace] for namespace in query.namespaces if namespace in stamps}
        return self.indexes.at(query.tenant_id, stamps, self._soon)

    def current_or_last(self, query: Query) -> IndexAtRevision | None:
        """Return the current index, or the last known one while MySQL is away. Raises StoreUnavailable."""
        indexes = self.indexes
        if indexes is None:
            return None
        return replace_in_outage(
            lambda: self.current(query), lambda _: indexes.last_known(query.tenant_id, query.namespaces)
        )

    def passing(self, query: Query, namespaces: Sequence[Namespace], *, limit: int) -> PassingChunks | None:
        """Return the chunks that pass the filters; None if there are more than ``limit``, or the index cannot tell."""
        clause = clause_of(query.filters)
        if clause is None or self.indexes is None:
            return None
        try:
            with suppress(Unavailable):
                if (index := self.current(query)) is not None:
                    chunk_ids = index.view.passing(namespaces, clause, limit=limit, without=index.changed)
                    return None if chunk_ids is None else PassingChunks(chunk_ids=chunk_ids, changed=index.changed)
        except IndexDamaged:
            self.indexes.distrust(query.tenant_id)
        return None

    def distrust(self, query: Query) -> None:
        """Mark the tenant's index as damaged, so that the indexer rebuilds it."""
        if self.indexes is not None:
            self.indexes.distrust(query.tenant_id)

    def _soon(self, ask: Callable[[Connection], T]) -> T:
        return read_soon(self.mysql, ask, seconds=_PATIENCE_S)


def _stamps(connection: Connection, query: Query) -> dict[Namespace, str]:
    revisions = Namespaces(connection, query.tenant_id).revisions(query.namespaces)
    return {namespace: revision.stamp for namespace, revision in revisions.items()}
