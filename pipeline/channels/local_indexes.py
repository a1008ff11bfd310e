"""This host's keyword indexes as queries see them: at the revision a query must see, or with what is missing named."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection

from pipeline.records import DocumentId, Namespace, TenantId
from pipeline.stores.local_index import IndexedState, LocalIndexReader, View
from pipeline.stores.publications import Publications

Changed = tuple[tuple[Namespace, DocumentId], ...]
AskMysql = Callable[[Callable[[Connection], "Changed | None"]], "Changed | None"]

_MOST_OPEN = 128  # tenants whose index a process keeps open
_LOOKED_AGAIN_S = 0.005
_MOST_AWAITED = 4  # revisions; an index that is further behind is catching up with a load
_MOST_CHANGED = 200  # documents; reading more from MySQL costs more than a search there


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A tenant's index and how far it is. ``changed``: documents that changed after its revision; what the index has of
    them is old, and MySQL has it. ``is_current`` is false for an index that could not be compared with MySQL."""

    view: View
    states: Mapping[Namespace, IndexedState]
    changed: tuple[tuple[Namespace, DocumentId], ...] = ()
    is_current: bool = True

    @property
    def stamps(self) -> dict[Namespace, str]:
        """The revision of each namespace in the index."""
        return {namespace: state.stamp for namespace, state in self.states.items()}

    def age_s(self, now: datetime) -> float:
        """Return the seconds since the oldest revision among the namespaces."""
        revised = [state.revised_at or state.created_at for state in self.states.values()]
        return max((now - moment.replace(tzinfo=UTC)).total_seconds() for moment in revised)


class LocalIndexes:
    """The indexes below ``root``, kept open while they are asked for. ``wait_s``: how long a query waits for the indexer
    to reach the revision it must see. Safe between threads."""

    def __init__(self, root: Path, *, wait_s: float, sleep: Callable[[float], None] = time.sleep) -> None:
        self._root = root
        self._wait_s = wait_s
        self._sleep = sleep
        self._lock = threading.Lock()
        self._readers: OrderedDict[TenantId, LocalIndexReader] = OrderedDict()

    def at(
        self, tenant_id: TenantId, stamps: Mapping[Namespace, str], ask: AskMysql
    ) -> Standing | None:
        """Return the index at these stamps, or at an older one with the documents that changed since then; None where the
        index is missing, lacks a namespace, or is too far behind. ``ask`` reads from MySQL, where that is needed.
        Raises StoreUnavailable."""
        reader = self._reader(tenant_id)
        until = time.monotonic() + self._wait_s
        while True:
            view = reader.view()
            states = {} if view is None else {namespace: view.state(namespace) for namespace in stamps}
            known = {namespace: state for namespace, state in states.items() if state is not None}
            if view is None or len(known) < len(stamps):
                return None
            behind = [namespace for namespace, state in known.items() if not state.has(stamps[namespace])]
            if not behind:
                return Standing(view=view, states=known)
            if time.monotonic() >= until or any(_gap(known[each], stamps[each]) > _MOST_AWAITED for each in behind):
                break
            self._sleep(_LOOKED_AGAIN_S)
        late = [known[namespace] for namespace in behind]
        changed = ask(lambda connection: _changed(connection, tenant_id, late))
        return None if changed is None else Standing(view=view, states=known, changed=changed)

    def last_known(self, tenant_id: TenantId, namespaces: Sequence[Namespace]) -> Standing | None:
        """Return the index as it is, with those of the namespaces that it has; None if it has none of them. Asks nobody."""
        view = self._reader(tenant_id).view()
        found = {} if view is None else {namespace: view.state(namespace) for namespace in namespaces}
        states = {namespace: state for namespace, state in found.items() if state is not None}
        return None if view is None or not states else Standing(view=view, states=states, is_current=False)

    def _reader(self, tenant_id: TenantId) -> LocalIndexReader:
        with self._lock:
            reader = self._readers.pop(tenant_id, None) or LocalIndexReader(self._root, tenant_id)
            self._readers[tenant_id] = reader
            while len(self._readers) > _MOST_OPEN:
                self._readers.popitem(last=False)
            return reader


def _gap(state: IndexedState, stamp: str) -> int:
    return int(stamp.partition("@")[0]) - state.revision


def _changed(
    connection: Connection, tenant_id: TenantId, states: Sequence[IndexedState]
) -> tuple[tuple[Namespace, DocumentId], ...] | None:
    found: list[tuple[Namespace, DocumentId]] = []
    for state in states:
        changes = Publications(connection, tenant_id).since(state.namespace, state.revision, state.revised_at)
        found += ((state.namespace, document_id) for document_id in changes.document_ids)
        if not changes.complete or len(found) > _MOST_CHANGED:
            return None
    return tuple(found)
