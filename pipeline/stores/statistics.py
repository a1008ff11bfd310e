"""The collection's statistics that BM25 needs: how many chunks a namespace shows, and how many of them hold each term.

Adding one to the row of every term of every batch costs MariaDB more than the chunks themselves. So only small changes
are added at once; a large one is put aside in the same transaction, and what waits is added together when its job ends,
when much is waiting, or by the sweeper. Until then a term may look rarer than it is, and nothing else is affected.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain

import numpy as np
import orjson
from sqlalchemy import Connection, bindparam, text

from pipeline.records import DocumentId, Namespace, TenantId
from pipeline.stores.namespaces import STAMP, Namespaces
from pipeline.stores.rows import TenantStore, now, slices

_TERMS_AT_ONCE = 20_000
_SMALL = 1_000  # terms; up to here a change is cheaper to add than to put aside
_MOST_WAITING = 64  # changes of a namespace: some 16,000 chunks, or 15 MB to add together
_SWEPT_AFTER_S = 30.0
_TOKEN_BYTES = 13  # see core.terms.Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceStatistics:
    """How many chunks a namespace shows and how many terms they have together. ``lags``: some terms wait to be counted.
    ``stamp``: see `stores.namespaces.Revision`."""

    chunk_count: int
    term_count: int
    lags: bool
    stamp: str


class Statistics(TenantStore):
    """What one tenant's namespaces hold, in numbers."""

    def of_query(
        self, namespaces: Sequence[Namespace], tokens: Sequence[str]
    ) -> tuple[dict[Namespace, NamespaceStatistics], dict[str, int]]:
        """`sizes` and `frequencies` in one statement: a query's time is too short for two."""
        values = {"tenant": self._tenant_id, "namespaces": list(namespaces), "tokens": list(tokens) or [""]}
        sizes: dict[Namespace, NamespaceStatistics] = {}
        found: dict[str, int] = {}
        for namespace, term, chunks, terms, lags, stamp in self._connection.execute(_OF_QUERY, values):
            if term is None:
                sizes[Namespace(namespace)] = _size(chunks, terms, lags, stamp)
            elif chunks > 0:
                found[term] = chunks
        return sizes, found

    def sizes(self, namespaces: Sequence[Namespace]) -> dict[Namespace, NamespaceStatistics]:
        """Size of each namespace that exists."""
        rows = self._run(_SIZES, namespaces=list(namespaces))
        return {Namespace(namespace): _size(*figures) for namespace, *figures in rows}

    def frequencies(self, namespaces: Sequence[Namespace], tokens: Sequence[str]) -> dict[str, int]:
        """In how many shown chunks each token occurs; a token in none is not in the answer."""
        if not tokens:
            return {}
        rows = self._run(_FREQUENCIES, namespaces=list(namespaces), tokens=list(tokens))
        return {token: count for token, count in rows if count > 0}

    def count(
        self,
        namespace: Namespace,
        added: Iterable[Sequence[str]],
        removed: Iterable[Sequence[str]],
        *,
        document_ids: Sequence[DocumentId],
    ) -> None:
        """Take chunks that become shown into the statistics, and those that cease to be shown out of them, all of
        ``document_ids``. The namespace's revision moves, so that no answer from before is given again.

        Must run in the transaction that moves the pointer, so that no count is ever lost or made twice.
        """
        changes: Counter[str] = Counter()
        chunks = terms = 0
        for sign, group in ((1, added), (-1, removed)):
            listed = list(group)
            chunks += sign * len(listed)
            terms += sign * sum(map(len, listed))
            (changes.update if sign > 0 else changes.subtract)(chain.from_iterable(map(set, listed)))
        Namespaces(self._connection, self._tenant_id).revise(namespace, document_ids, chunks=chunks, terms=terms)
        if len(changes) <= _SMALL:
            self._add(namespace, changes)
        else:
            self._put_aside(namespace, changes)
            self.add_up(namespace, beyond=_MOST_WAITING)

    def add_up(self, namespace: Namespace, *, beyond: int = 0) -> None:
        """Add what waits, if more than ``beyond`` changes do. What another worker is adding is left to it."""
        values = {"tenant": self._tenant_id, "namespace": namespace}
        if beyond and self._connection.execute(_COUNT_WAITING, values).scalar_one() <= beyond:
            return
        waiting = self._connection.execute(_WAITING, values).all()
        if not waiting:
            return
        changes = _unpacked([body for _, body in waiting])
        Namespaces(self._connection, self._tenant_id).revise(namespace)  # first, as everywhere: count() locks it first
        self._add(namespace, changes)
        self._connection.execute(_ADDED, {**values, "ids": [change_id for change_id, _ in waiting]})

    def waiting(self, namespace: Namespace) -> dict[str, int]:
        """What is not added yet, by term."""
        return _unpacked(list(self._run(_BODIES, namespace=namespace).scalars()))

    def overdue(self) -> list[Namespace]:
        """Namespaces in which something has waited for longer than a job's end should take to come."""
        since = now() - timedelta(seconds=_SWEPT_AFTER_S)
        rows = self._run(_OVERDUE, since=since).scalars()
        return [Namespace(namespace) for namespace in rows]

    def _add(self, namespace: Namespace, changes: Mapping[str, int]) -> None:
        """Rows are taken in key order: two workers adding to one namespace wait for each other and never deadlock."""
        for some in slices([(term, change) for term, change in sorted(changes.items()) if change], _TERMS_AT_ONCE):
            self._connection.exec_driver_sql(_ADD, (self._tenant_id, namespace, orjson.dumps(some).decode()))

    def _put_aside(self, namespace: Namespace, changes: Mapping[str, int]) -> None:
        self._run(_PUT_ASIDE, namespace=namespace, id=str(uuid.uuid4()), changes=_packed(changes), now=now())


def _size(chunks: int, terms: int, lags: int, stamp: str) -> NamespaceStatistics:
    return NamespaceStatistics(chunk_count=chunks, term_count=terms, lags=bool(lags), stamp=stamp)


def _packed(changes: Mapping[str, int]) -> bytes:
    """Tokens, all of one width, and after them a number for each: a third of JSON's time in both directions."""
    return "".join(changes).encode("ascii") + np.fromiter(changes.values(), dtype="<i4", count=len(changes)).tobytes()


def _unpacked(bodies: Sequence[bytes]) -> dict[str, int]:
    """The changes of all bodies, added."""
    if not bodies:
        return {}
    counts = [len(body) // (_TOKEN_BYTES + 4) for body in bodies]
    terms = [np.frombuffer(body, f"S{_TOKEN_BYTES}", count) for body, count in zip(bodies, counts, strict=True)]
    changes = [
        np.frombuffer(body, "<i4", count, count * _TOKEN_BYTES) for body, count in zip(bodies, counts, strict=True)
    ]
    known, places = np.unique(np.concatenate(terms), return_inverse=True)
    added = np.bincount(places, weights=np.concatenate(changes), minlength=len(known)).astype(np.int64)
    return dict(zip(known.astype(str).tolist(), added.tolist(), strict=True))


def tenants_with_waiting_terms(connection: Connection) -> list[TenantId]:
    """Whose statistics wait to be added up; reads nothing but their ids."""
    rows = connection.execute(text("SELECT DISTINCT tenant_id FROM term_changes")).scalars()
    return [TenantId(tenant_id) for tenant_id in rows]


# One JSON array for all terms: a row of VALUES for each costs the client several times as much.
_ADD = (
    "INSERT INTO term_statistics (tenant_id, namespace, term, chunk_count)"
    " SELECT %s, %s, changed.term, changed.chunks FROM JSON_TABLE(%s, '$[*]' COLUMNS ("
    "term CHAR(13) CHARACTER SET ascii COLLATE ascii_bin PATH '$[0]', chunks INT PATH '$[1]')) AS changed"
    " ON DUPLICATE KEY UPDATE chunk_count = term_statistics.chunk_count + changed.chunks"
)

_SIZES = text(
    "SELECT n.namespace, n.chunk_count, n.term_count, EXISTS (SELECT 1 FROM term_changes c"
    f" WHERE c.tenant_id = n.tenant_id AND c.namespace = n.namespace) AS lags, {STAMP}"
    " FROM namespaces n WHERE n.tenant_id = :tenant AND n.namespace IN :namespaces"
).bindparams(bindparam("namespaces", expanding=True))

_FREQUENCIES = text(
    "SELECT term, chunk_count FROM term_statistics"
    " WHERE tenant_id = :tenant AND namespace IN :namespaces AND term IN :tokens"
).bindparams(bindparam("namespaces", expanding=True), bindparam("tokens", expanding=True))

_OF_QUERY = text(
    "SELECT n.namespace, NULL AS term, n.chunk_count, n.term_count, EXISTS (SELECT 1 FROM term_changes c"
    f" WHERE c.tenant_id = n.tenant_id AND c.namespace = n.namespace) AS lags, {STAMP}"
    " FROM namespaces n WHERE n.tenant_id = :tenant AND n.namespace IN :namespaces"
    " UNION ALL SELECT namespace, term, chunk_count, 0, 0, '' FROM term_statistics"
    " WHERE tenant_id = :tenant AND namespace IN :namespaces AND term IN :tokens"
).bindparams(bindparam("namespaces", expanding=True), bindparam("tokens", expanding=True))

_PUT_ASIDE = text(
    "INSERT INTO term_changes (tenant_id, namespace, change_id, changes, created_at)"
    " VALUES (:tenant, :namespace, :id, :changes, :now)"
)
_COUNT_WAITING = text("SELECT COUNT(*) FROM term_changes WHERE tenant_id = :tenant AND namespace = :namespace")
_BODIES = text("SELECT changes FROM term_changes WHERE tenant_id = :tenant AND namespace = :namespace")
_WAITING = text(
    "SELECT change_id, changes FROM term_changes WHERE tenant_id = :tenant AND namespace = :namespace"
    " FOR UPDATE SKIP LOCKED"
)
_ADDED = text(
    "DELETE FROM term_changes WHERE tenant_id = :tenant AND namespace = :namespace AND change_id IN :ids"
).bindparams(bindparam("ids", expanding=True))
_OVERDUE = text("SELECT DISTINCT namespace FROM term_changes WHERE tenant_id = :tenant AND created_at < :since")
