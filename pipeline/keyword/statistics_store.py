"""BM25's statistics: how many chunks a namespace shows, and how many hold each term.

Adding a large change to every term's row at once is expensive, so it is deferred and added when its job ends, when many
changes wait, or by the sweeper. Until then a term may look rarer than it is.
"""

import hashlib
import uuid
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import chain

import numpy as np
import orjson
from sqlalchemy import Connection, Engine, text

from pipeline.database.engines import Conflict, mysql_errors
from pipeline.database.rows import TenantStore, insert_many, now, slices
from pipeline.database.statements import same_document, tenant_ids
from pipeline.records import DocumentId, Namespace, TenantId
from pipeline.tenants.namespace_store import Namespaces

_TERMS_AT_ONCE = 20_000
_SMALL = 1_000  # terms; up to here a change is cheaper to add than to defer
_MOST_WAITING = 64  # changes of a namespace: some 16,000 chunks, or 15 MB to add together
_SWEPT_AFTER_S = 30.0
_TOKEN_BYTES = 13  # see keyword.terms.Tokenizer
_RECOUNTED_AT_ONCE = 500_000  # counted in one pass: about 100 MB
_ROWS_AT_A_TIME = 500
_LOCK_WAIT_S = 20  # below a socket's read timeout


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceStatistics:
    """The counts of shown chunks and of their terms. ``lags``: some terms are not counted yet."""

    chunk_count: int
    term_count: int
    lags: bool


class Statistics(TenantStore):
    """The keyword statistics of one tenant's namespaces."""

    def of_query(
        self, namespaces: Sequence[Namespace], tokens: Sequence[str]
    ) -> tuple[dict[Namespace, NamespaceStatistics], dict[str, int]]:
        """Return the size of each existing namespace, and `frequencies`, in one statement: a query has no time for two."""
        sizes: dict[Namespace, NamespaceStatistics] = {}
        frequencies: dict[str, int] = {}
        rows = self._run(_OF_QUERY, namespaces=list(namespaces), tokens=list(tokens) or [""])
        for namespace, term, chunks, terms, lags in rows:
            if term is None:
                size = NamespaceStatistics(chunk_count=chunks, term_count=terms, lags=bool(lags))
                sizes[Namespace(namespace)] = size
            elif chunks > 0:
                frequencies[term] = chunks
        return sizes, frequencies

    def frequencies(self, namespaces: Sequence[Namespace], tokens: Sequence[str]) -> dict[str, int]:
        """Return the number of shown chunks that hold each token; a token that none holds is left out."""
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
        """Add newly shown chunks and subtract hidden ones, all of ``document_ids``, and revise the namespace. Run it in
        the transaction that moves the pointer."""
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
        """Add the deferred changes if there are more than ``beyond``, but skip those that another worker is adding."""
        if beyond and self._run(_COUNT_WAITING, namespace=namespace).scalar_one() <= beyond:
            return
        waiting = self._run(_WAITING, namespace=namespace).all()
        if not waiting:
            return
        changes = _unpacked([body for _, body in waiting])
        Namespaces(self._connection, self._tenant_id).revise(namespace)  # before the terms, as count() locks
        self._add(namespace, changes)
        self._run(_ADDED, namespace=namespace, ids=[change_id for change_id, _ in waiting])

    def waiting(self, namespace: Namespace) -> dict[str, int]:
        """Return the deferred changes, by term."""
        return _unpacked(list(self._run(_BODIES, namespace=namespace).scalars()))

    def overdue(self) -> list[Namespace]:
        """Return the namespaces with a change deferred for longer than a job usually takes to end."""
        rows = self._run(_OVERDUE, since=now() - timedelta(seconds=_SWEPT_AFTER_S))
        return [Namespace(namespace) for namespace in rows.scalars()]

    def _add(self, namespace: Namespace, changes: Mapping[str, int]) -> None:
        """Add changes to the terms' rows in key order, so that two workers wait for each other and never deadlock."""
        for piece in slices([(term, change) for term, change in sorted(changes.items()) if change], _TERMS_AT_ONCE):
            self._connection.exec_driver_sql(_ADD, (self._tenant_id, namespace, orjson.dumps(piece).decode()))

    def _put_aside(self, namespace: Namespace, changes: Mapping[str, int]) -> None:
        self._run(_PUT_ASIDE, namespace=namespace, id=str(uuid.uuid4()), changes=_packed(changes), now=now())


def _packed(changes: Mapping[str, int]) -> bytes:
    """Pack tokens of one width, followed by a number for each: a third of JSON's time in both directions."""
    return "".join(changes).encode("ascii") + np.fromiter(changes.values(), dtype="<i4", count=len(changes)).tobytes()


def _unpacked(bodies: Sequence[bytes]) -> dict[str, int]:
    """Return the sum of the changes of all bodies."""
    if not bodies:
        return {}
    counts = [len(body) // (_TOKEN_BYTES + 4) for body in bodies]
    terms = [np.frombuffer(body, f"S{_TOKEN_BYTES}", count) for body, count in zip(bodies, counts, strict=True)]
    changes = [
        np.frombuffer(body, "<i4", count, count * _TOKEN_BYTES) for body, count in zip(bodies, counts, strict=True)
    ]
    tokens, positions = np.unique(np.concatenate(terms), return_inverse=True)
    added = np.bincount(positions, weights=np.concatenate(changes), minlength=len(tokens)).astype(np.int64)
    return dict(zip(tokens.astype(str).tolist(), added.tolist(), strict=True))


def tenants_with_waiting_terms(connection: Connection) -> list[TenantId]:
    """Return the tenants with deferred statistics; reads only their ids."""
    return tenant_ids(connection, "SELECT DISTINCT tenant_id FROM term_changes")


# One JSON array for all terms: a VALUES row for each costs the client several times as much.
_ADD = (
    "INSERT INTO term_statistics (tenant_id, namespace, term, chunk_count)"
    " SELECT %s, %s, changed.term, changed.chunks FROM JSON_TABLE(%s, '$[*]' COLUMNS ("
    "term CHAR(13) CHARACTER SET ascii COLLATE ascii_bin PATH '$[0]', chunks INT PATH '$[1]')) AS changed"
    " ON DUPLICATE KEY UPDATE chunk_count = term_statistics.chunk_count + changed.chunks"
)

_FREQUENCIES = (
    "SELECT term, chunk_count FROM term_statistics"
    " WHERE tenant_id = :tenant AND namespace IN :namespaces AND term IN :tokens"
)

_OF_QUERY = (
    "SELECT n.namespace, NULL AS term, n.chunk_count, n.term_count, EXISTS (SELECT 1 FROM term_changes c"
    " WHERE c.tenant_id = n.tenant_id AND c.namespace = n.namespace) AS lags"
    " FROM namespaces n WHERE n.tenant_id = :tenant AND n.namespace IN :namespaces"
    " UNION ALL SELECT namespace, term, chunk_count, 0, 0 FROM term_statistics"
    " WHERE tenant_id = :tenant AND namespace IN :namespaces AND term IN :tokens"
)

_PUT_ASIDE = (
    "INSERT INTO term_changes (tenant_id, namespace, change_id, changes, created_at)"
    " VALUES (:tenant, :namespace, :id, :changes, :now)"
)
_COUNT_WAITING = text("SELECT COUNT(*) FROM term_changes WHERE tenant_id = :tenant AND namespace = :namespace")
_BODIES = text("SELECT changes FROM term_changes WHERE tenant_id = :tenant AND namespace = :namespace")
_WAITING = (
    "SELECT change_id, changes FROM term_changes WHERE tenant_id = :tenant AND namespace = :namespace"
    " FOR UPDATE SKIP LOCKED"
)
_ADDED = "DELETE FROM term_changes WHERE tenant_id = :tenant AND namespace = :namespace AND change_id IN :ids"
_OVERDUE = text("SELECT DISTINCT namespace FROM term_changes WHERE tenant_id = :tenant AND created_at < :since")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The corrections that make the stored statistics exact. Concurrent additions do not disturb them."""

    chunks: int = 0
    terms: int = 0
    frequencies: dict[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The number of wrong rows."""
        return len(self.frequencies) + bool(self.chunks or self.terms)


def recount(
    mysql: Engine, tenant_id: TenantId, namespace: Namespace, *, repair: bool, wait_s: int = _LOCK_WAIT_S
) -> Difference:
    """Compare the statistics with the chunks in one snapshot; with ``repair`` add the difference as publishing does,
    without other locks. One recount of a namespace at a time: raises Conflict after ``wait_s`` beside another."""
    with mysql_errors(), mysql.connect() as connection, _alone(connection, tenant_id, namespace, wait_s=wait_s):
        connection.rollback()
        with connection.execution_options(isolation_level="REPEATABLE READ").begin():
            difference = _difference(connection, tenant_id, namespace)
        if repair and difference.rows:
            with connection.begin():
                _correct(connection, tenant_id, namespace, difference)
    return difference


def _difference(connection: Connection, tenant_id: TenantId, namespace: Namespace) -> Difference:
    values = {"tenant": tenant_id, "namespace": namespace}
    passes = 1 + connection.execute(_COUNT_STORED, values).scalar_one() // _RECOUNTED_AT_ONCE
    frequencies: dict[str, int] = {}
    chunks = terms = 0
    for number in range(passes):
        counted: Counter[str] = Counter()
        chunks = terms = 0
        rows = connection.execution_options(stream_results=True, yield_per=_ROWS_AT_A_TIME).execute(_TERMS, values)
        for row_terms, row_count in rows:
            chunks += 1
            terms += row_count
            counted.update(term for term in set(row_terms.split()) if _falls_into(term, number, passes))
        for term, count in connection.execute(_STORED, values):  # a stream, to be read before the next statement
            if _falls_into(term, number, passes):
                counted[term] -= count
        for term, count in Statistics(connection, tenant_id).waiting(namespace).items():
            if _falls_into(term, number, passes):
                counted[term] -= count
        frequencies.update((term, missing) for term, missing in counted.items() if missing)
    sizes = connection.execute(_STORED_SIZES, values).one_or_none()
    if sizes is None:
        return Difference(frequencies=frequencies)
    return Difference(chunks=chunks - sizes.chunk_count, terms=terms - sizes.term_count, frequencies=frequencies)


def _falls_into(term: str, number: int, passes: int) -> bool:
    return passes == 1 or zlib.crc32(term.encode()) % passes == number


def _correct(connection: Connection, tenant_id: TenantId, namespace: Namespace, difference: Difference) -> None:
    # First, as everywhere: publishing locks the namespace before its terms.
    Namespaces(connection, tenant_id).revise(namespace, chunks=difference.chunks, terms=difference.terms)
    insert_many(
        connection,
        "INSERT INTO term_statistics (tenant_id, namespace, term, chunk_count) VALUES (%s, %s, %s, %s)"
        " ON DUPLICATE KEY UPDATE chunk_count = chunk_count + VALUES(chunk_count)",
        [(tenant_id, namespace, term, change) for term, change in sorted(difference.frequencies.items())],
    )


@contextmanager
def _alone(connection: Connection, tenant_id: TenantId, namespace: Namespace, *, wait_s: int) -> Iterator[None]:
    name = "recount_" + hashlib.sha256(f"{tenant_id}\x1f{namespace}".encode()).hexdigest()[:32]
    if connection.execute(text("SELECT GET_LOCK(:name, :wait)"), {"name": name, "wait": wait_s}).scalar_one() != 1:
        raise Conflict("MySQL: this namespace is being recounted by another process")
    try:
        yield
    finally:
        connection.execute(text("SELECT RELEASE_LOCK(:name)"), {"name": name})


_COUNT_STORED = text("SELECT COUNT(*) FROM term_statistics WHERE tenant_id = :tenant AND namespace = :namespace")
_STORED = text("SELECT term, chunk_count FROM term_statistics WHERE tenant_id = :tenant AND namespace = :namespace")
_STORED_SIZES = text(
    "SELECT chunk_count, term_count FROM namespaces WHERE tenant_id = :tenant AND namespace = :namespace"
)
_TERMS = text(
    f"SELECT c.terms, c.term_count FROM documents d JOIN chunks c ON {same_document('c', 'd')}"
    " AND c.generation = d.published_generation WHERE d.tenant_id = :tenant AND d.namespace = :namespace AND c.enabled = 1"
)
