"""The statistics BM25 needs, counted again from the shown chunks and compared with what is kept."""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy import Connection, Engine, text

from pipeline.records import Namespace, TenantId
from pipeline.stores.engines import Conflict, mysql_errors
from pipeline.stores.rows import insert_many, now
from pipeline.stores.statistics import Statistics

_TERMS_AT_ONCE = 500_000  # counted in one pass: about 100 MB
_ROWS_AT_A_TIME = 500
_LOCK_WAIT_S = 20  # below what a socket waits for an answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What has to be added to the kept statistics to make them right. Additions of others do not disturb it."""

    chunks: int = 0
    terms: int = 0
    frequencies: dict[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many rows are wrong."""
        return len(self.frequencies) + bool(self.chunks or self.terms)


def recount(
    mysql: Engine, tenant_id: TenantId, namespace: Namespace, *, repair: bool, wait_s: int = _LOCK_WAIT_S
) -> Difference:
    """Compare in one snapshot, in which a pointer and its statistics always fit together; with ``repair`` add what is
    missing.

    Nothing else is locked: what is published meanwhile adds and subtracts as the repair does. One recount of a
    namespace at a time, as two would both add: raises Conflict after ``wait_s`` seconds beside another.
    """
    with mysql_errors(), mysql.connect() as connection, _alone(connection, tenant_id, namespace, wait_s=wait_s):
        connection.rollback()
        with connection.execution_options(isolation_level="REPEATABLE READ").begin():
            found = _difference(connection, tenant_id, namespace)
        if repair and found.rows:
            with connection.begin():
                _add(connection, tenant_id, namespace, found)
    return found


def _difference(connection: Connection, tenant_id: TenantId, namespace: Namespace) -> Difference:
    values = {"tenant": tenant_id, "namespace": namespace}
    kept_rows = connection.execute(_KEPT_ROWS, values).scalar_one()
    passes = 1 + kept_rows // _TERMS_AT_ONCE
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
        for term, kept in connection.execute(_KEPT, values):
            if _falls_into(term, number, passes):
                counted[term] -= kept
        for term, waiting in Statistics(connection, tenant_id).waiting(namespace).items():
            if _falls_into(term, number, passes):
                counted[term] -= waiting
        frequencies.update((term, missing) for term, missing in counted.items() if missing)
    sizes = connection.execute(_SIZES, values).one_or_none()
    if sizes is None:
        return Difference(frequencies=frequencies)
    return Difference(chunks=chunks - sizes.chunk_count, terms=terms - sizes.term_count, frequencies=frequencies)


def _falls_into(term: str, number: int, passes: int) -> bool:
    return passes == 1 or zlib.crc32(term.encode()) % passes == number


def _add(connection: Connection, tenant_id: TenantId, namespace: Namespace, found: Difference) -> None:
    connection.execute(  # first, as everywhere: whoever publishes locks the namespace before its terms
        text(
            "UPDATE namespaces SET chunk_count = chunk_count + :chunks, term_count = term_count + :terms,"
            " revision = revision + 1, revised_at = :now WHERE tenant_id = :tenant AND namespace = :namespace"
        ),
        {"tenant": tenant_id, "namespace": namespace, "chunks": found.chunks, "terms": found.terms, "now": now()},
    )
    insert_many(
        connection,
        "INSERT INTO term_statistics (tenant_id, namespace, term, chunk_count) VALUES (%s, %s, %s, %s)"
        " ON DUPLICATE KEY UPDATE chunk_count = chunk_count + VALUES(chunk_count)",
        [(tenant_id, namespace, term, change) for term, change in sorted(found.frequencies.items())],
    )


@contextmanager
def _alone(connection: Connection, tenant_id: TenantId, namespace: Namespace, *, wait_s: int) -> Iterator[None]:
    name = "recount_" + hashlib.sha256(f"{tenant_id}\x1f{namespace}".encode()).hexdigest()[:32]
    if connection.execute(text("SELECT GET_LOCK(:name, :wait)"), {"name": name, "wait": wait_s}).scalar_one() != 1:
        raise Conflict("MySQL: this namespace is being recounted by somebody else")
    try:
        yield
    finally:
        connection.execute(text("SELECT RELEASE_LOCK(:name)"), {"name": name})


_KEPT_ROWS = text("SELECT COUNT(*) FROM term_statistics WHERE tenant_id = :tenant AND namespace = :namespace")
_KEPT = text("SELECT term, chunk_count FROM term_statistics WHERE tenant_id = :tenant AND namespace = :namespace")
_SIZES = text("SELECT chunk_count, term_count FROM namespaces WHERE tenant_id = :tenant AND namespace = :namespace")
_TERMS = text(
    "SELECT c.terms, c.term_count FROM documents d JOIN chunks c ON c.tenant_id = d.tenant_id"
    " AND c.namespace = d.namespace AND c.document_id = d.document_id AND c.generation = d.published_generation"
    " WHERE d.tenant_id = :tenant AND d.namespace = :namespace AND c.enabled = 1"
)
