"""Vectors in PostgreSQL, one for each chunk under the chunk's own id. They can always be rebuilt from MySQL. While an
installation has two tables of them, one is read and both are kept up to date."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import numpy as np
import orjson
import psycopg
from numpy.typing import NDArray
from psycopg.types.json import Jsonb
from sqlalchemy import Connection, Engine, exc, text
from sqlalchemy.dialects import postgresql

from pipeline.chunking.strategies.question_answer import MARK, PAIR_TYPE
from pipeline.database.engines import postgres_errors
from pipeline.database.postgres_tables import FILTERED
from pipeline.database.statements import sql
from pipeline.database.tenant_presence import RequireTenant, none_required, share_tenant
from pipeline.distances import MEASURES, Distance
from pipeline.documents.alignment_store import AlignedVectors
from pipeline.errors import VectorsMissing, VectorTableMissing
from pipeline.filters.sql_filters import postgres_condition
from pipeline.records import (
    Chunk,
    ChunkId,
    DocumentFields,
    DocumentId,
    Filters,
    Generation,
    LiveSpaces,
    Namespace,
    TenantId,
)


class Vectors:
    """One tenant's vectors in one embedding space."""

    def __init__(
        self,
        postgres: Engine,
        tenant_id: TenantId,
        *,
        distance: Distance,
        table: str = "chunk_embeddings",
        require_tenant: RequireTenant = none_required,
    ) -> None:
        """``table``: the table of the embedding space."""
        self._postgres = postgres
        self._tenant_id = tenant_id
        self._distance = distance
        self._table = table
        self._require_tenant = require_tenant

    def upsert(
        self,
        chunks: Sequence[Chunk],
        vectors: NDArray[np.float32],
        *,
        fields: Mapping[Generation, DocumentFields],
        model: str,
    ) -> None:
        """Write one vector for each chunk, in the chunks' order; a chunk that has one already gets the new one."""
        if not chunks:
            return
        filtered = {generation: _filter_columns(fields[generation]) for generation in {c.generation for c in chunks}}
        rows = [
            (
                self._tenant_id,
                UUID(chunk.chunk_id),
                chunk.generation.scope.namespace,
                chunk.generation.document_id,
                chunk.generation.number,
                halves,
                model,
                chunk.content_hash,
                *_of_chunk(filtered[chunk.generation], chunk),
            )
            for chunk, halves in zip(chunks, as_sent(vectors), strict=True)
        ]
        with postgres_errors(), self._postgres.connect() as connection:
            driver: Any = connection.connection
            try:
                with connection.begin(), driver.cursor() as cursor:
                    self._hold(connection)
                    copy_rows(cursor, self._table, _COLUMNS, _TYPES, rows)
            except psycopg.errors.UndefinedTable as error:  # its space was given up, and this process did not know yet
                raise VectorsMissing(f"the table {self._table} was dropped meanwhile") from error
            except psycopg.errors.UniqueViolation:  # an earlier attempt left some of them
                with connection.begin(), driver.cursor() as cursor:
                    self._hold(connection)
                    cursor.execute(f"CREATE TEMP TABLE incoming (LIKE {self._table} INCLUDING DEFAULTS) ON COMMIT DROP")
                    copy_rows(cursor, "incoming", _COLUMNS, _TYPES, rows)
                    cursor.execute(
                        f"INSERT INTO {self._table} ({_COLUMNS}) SELECT {_COLUMNS} FROM incoming"
                        f" ORDER BY chunk_id ON CONFLICT (tenant_id, chunk_id) DO UPDATE SET {_OVERWRITE}"
                    )

    def _hold(self, connection: Connection) -> None:
        share_tenant(connection, self._tenant_id)
        self._require_tenant(self._tenant_id)

    def of_texts(self, chunks: Sequence[Chunk], *, model: str) -> dict[ChunkId, NDArray[np.float32]]:
        """Return the vectors that ``model`` made of the same texts in any generation of the same documents."""
        values = {
            "tenant": self._tenant_id,
            "model": model,
            "namespaces": [chunk.generation.scope.namespace for chunk in chunks],
            "documents": [chunk.generation.document_id for chunk in chunks],
            "hashes": [chunk.content_hash for chunk in chunks],
        }
        statement = text(_OF_TEXTS.format(table=self._table))
        with postgres_errors(), self._postgres.connect() as connection:
            vectors = {
                (namespace, document_id, bytes(content_hash)): _as_received(sent)
                for namespace, document_id, content_hash, sent in connection.execute(statement, values)
            }
        keys = {c.chunk_id: (c.generation.scope.namespace, c.generation.document_id, c.content_hash) for c in chunks}
        return {chunk_id: vectors[key] for chunk_id, key in keys.items() if key in vectors}

    def counts(self, generations: Sequence[Generation]) -> dict[Generation, int]:
        """Return how many vectors each of these generations has."""
        counts = dict.fromkeys(generations, 0)
        by_key = {(g.scope.namespace, g.document_id, g.number): g for g in generations}
        values = {
            "tenant": self._tenant_id,
            "namespaces": sorted({generation.scope.namespace for generation in generations}),
            "documents": sorted({generation.document_id for generation in generations}),
        }
        with postgres_errors(), self._postgres.connect() as connection:
            for *key, count in connection.execute(text(_COUNTS.format(table=self._table)), values):
                if generation := by_key.get(tuple(key)):
                    counts[generation] = count
        return counts

    def drop(self, generations: Sequence[Generation]) -> None:
        """Delete the vectors of exactly these generations, of their chunks and of their documents; nothing without any."""
        if not generations:
            return
        values = {
            "tenant": self._tenant_id,
            "namespaces": [generation.scope.namespace for generation in generations],
            "documents": [generation.document_id for generation in generations],
            "numbers": [generation.number for generation in generations],
        }
        with postgres_errors(), self._postgres.begin() as connection:
            for table in (self._table, "document_embeddings"):
                connection.execute(text(_DROP.format(table=table)), values)

    def drop_others(self, generations: Sequence[Generation], kept: Sequence[ChunkId]) -> None:
        """Delete the vectors of these generations whose chunks are not ``kept``."""
        values = {
            "tenant": self._tenant_id,
            "namespaces": [generation.scope.namespace for generation in generations],
            "documents": [generation.document_id for generation in generations],
            "numbers": [generation.number for generation in generations],
            "kept": f"{{{','.join(kept)}}}",
        }
        with postgres_errors(), self._postgres.begin() as connection:
            connection.execute(text(_DROP_OTHERS.format(table=self._table)), values)

    def nearest(
        self, vector: NDArray[np.float32] | str, *, namespaces: Sequence[Namespace], filters: Filters, limit: int
    ) -> list[tuple[ChunkId, float]]:
        """Return up to ``limit`` chunks with their scores, nearest first, ties by chunk id. ``vector``: as numbers, or as
        `halfvec_literal`.

        The score is ``1 - distance`` for cosine and ``1 / (1 + distance)`` for euclidean: higher is better, 1 means
        equal. Exact. Includes generations that are not shown; the caller drops them when it loads the text, because
        only MySQL knows.
        """
        condition, values = postgres_condition(filters)
        operator = MEASURES[self._distance].operator
        statement = _NEAREST.format(table=self._table, operator=operator, condition=condition)
        values |= {"tenant": self._tenant_id, "namespaces": list(namespaces), "limit": limit}
        values["query"] = vector if isinstance(vector, str) else halfvec_literal(vector)
        with space_errors(self._table), self._postgres.connect() as connection:
            rows = connection.execute(sql(statement), values).all()
        return [(ChunkId(chunk_id), MEASURES[self._distance].similarity(distance)) for chunk_id, distance in rows]

    def nearest_to_each(
        self, literals: Sequence[str], *, namespaces: Sequence[Namespace], filters: Filters, limit: int
    ) -> list[list[tuple[ChunkId, float]]]:
        """Return `nearest` for each of these vectors, in one statement, which reads the rows once."""
        condition, values = postgres_condition(filters)
        operator = MEASURES[self._distance].operator
        statement = _NEAREST_TO_EACH.format(table=self._table, operator=operator, condition=condition)
        values |= {"tenant": self._tenant_id, "namespaces": list(namespaces), "limit": limit, "queries": list(literals)}
        with space_errors(self._table), self._postgres.connect() as connection:
            rows = connection.execute(sql(statement), values).all()
        found: list[list[tuple[ChunkId, float]]] = [[] for _ in literals]
        for chunk_id, distance, place in rows:
            found[place - 1].append((ChunkId(chunk_id), MEASURES[self._distance].similarity(distance)))
        return found

    def scores(self, vector: NDArray[np.float32], chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, float]:
        """Return the scores of given chunks, as in ``nearest``; a chunk without a vector is left out."""
        if not chunk_ids:
            return {}
        # The text form of an array: psycopg would inspect each element.
        values = {"tenant": self._tenant_id, "query": halfvec_literal(vector), "ids": f"{{{','.join(chunk_ids)}}}"}
        with space_errors(self._table), self._postgres.connect() as connection:
            statement = _SCORES.format(table=self._table, operator=MEASURES[self._distance].operator)
            rows = connection.exec_driver_sql(statement, values).all()
        return {ChunkId(chunk_id): MEASURES[self._distance].similarity(distance) for chunk_id, distance in rows}

    def scores_of_each(
        self, asked: Sequence[tuple[NDArray[np.float32], Sequence[ChunkId]]]
    ) -> list[dict[ChunkId, float]]:
        """Return `scores` for each of these vectors and its chunks, in one statement."""
        arrays = [f"{{{','.join(chunk_ids)}}}" for _, chunk_ids in asked]
        values = {"tenant": self._tenant_id, "queries": [halfvec_literal(vector) for vector, _ in asked], "ids": arrays}
        with space_errors(self._table), self._postgres.connect() as connection:
            statement = _SCORES_OF_EACH.format(table=self._table, operator=MEASURES[self._distance].operator)
            rows = connection.exec_driver_sql(statement, values).all()
        found: list[dict[ChunkId, float]] = [{} for _ in asked]
        for place, chunk_id, distance in rows:
            found[place - 1][ChunkId(chunk_id)] = MEASURES[self._distance].similarity(distance)
        return found


def for_each_query(statement: str) -> str:
    """Return a statement that carries out a search by ``:query`` for each of ``:queries``. Its rows end with the place of
    theirs, from 1, and have the order of the search."""
    one = statement.replace("CAST(:query AS halfvec)", "asked.query")
    return (
        "SELECT found.*, asked.place FROM unnest(CAST(:queries AS halfvec[])) WITH ORDINALITY AS asked(query, place)"
        f" CROSS JOIN LATERAL ({one}) found ORDER BY asked.place, found.distance, found.chunk_id"
    )


def halfvec_literal(vector: NDArray[np.float32]) -> str:
    """Return the text form of a halfvec. Thirty times as fast as pgvector's, which writes number by number."""
    return orjson.dumps(vector.astype(np.float16), option=orjson.OPT_SERIALIZE_NUMPY).decode()


@contextmanager
def space_errors(table: str) -> Iterator[None]:
    """Translate errors as ``postgres_errors`` does, and a missing table into VectorTableMissing with the space's table."""
    with postgres_errors():
        try:
            yield
        except exc.ProgrammingError as error:
            if isinstance(error.orig, psycopg.errors.UndefinedTable):
                raise VectorTableMissing(f"PostgreSQL has no table {table}") from error
            raise


_COLUMNS = (
    f"tenant_id, chunk_id, namespace, document_id, generation, embedding, model, content_hash, {', '.join(FILTERED)}"
)
_TYPES = ["text", "uuid", "text", "text", "int4", "bytea", "text", "bytea"]  # a halfvec's bytes are sent as they are
_DIALECT = postgresql.dialect()  # type: ignore[no-untyped-call]
_TYPES += [kind.compile(dialect=_DIALECT).lower() for kind in FILTERED.values()]
# A row that is overwritten gets a new number: under its old one it would be inserted into a graph.
_OVERWRITE = ", ".join(
    f"{column} = EXCLUDED.{column}"
    for column in [*_COLUMNS.split(", "), "seq"]
    if column not in {"tenant_id", "chunk_id"}
)

_COUNTS = (
    "SELECT namespace, document_id, generation, count(*) FROM {table}"
    " WHERE tenant_id = :tenant AND namespace = ANY(:namespaces) AND document_id = ANY(:documents)"
    " GROUP BY namespace, document_id, generation"
)

_OF_TEXTS = (
    "SELECT DISTINCT ON (e.namespace, e.document_id, e.content_hash) e.namespace, e.document_id, e.content_hash,"
    " halfvec_send(e.embedding) FROM (SELECT DISTINCT * FROM unnest(CAST(:namespaces AS text[]),"
    " CAST(:documents AS text[]), CAST(:hashes AS bytea[])) AS asked(namespace, document_id, content_hash)) wanted"
    " JOIN {table} e ON e.tenant_id = :tenant AND e.namespace = wanted.namespace"
    " AND e.document_id = wanted.document_id AND e.content_hash = wanted.content_hash AND e.model = :model"
)

_DROP = (
    "DELETE FROM {table} e USING unnest(CAST(:namespaces AS text[]), CAST(:documents AS text[]),"
    " CAST(:numbers AS integer[])) AS gone(namespace, document_id, generation)"
    " WHERE e.tenant_id = :tenant AND e.namespace = gone.namespace"
    " AND e.document_id = gone.document_id AND e.generation = gone.generation"
)

_DROP_OTHERS = _DROP + (
    " AND NOT EXISTS (SELECT 1 FROM unnest(CAST(:kept AS uuid[])) AS kept(chunk_id) WHERE kept.chunk_id = e.chunk_id)"
)

# A plain subquery, ordered outside it, so that no approximate index is chosen for it. A generic plan of `= ANY(…)`
# would assume ten names, and use the primary key, which reads all of the tenant's namespaces.
_NEAREST = """
SELECT chunk_id, distance FROM (
    SELECT chunk_id, embedding {operator} CAST(:query AS halfvec) AS distance
    FROM {table}
    WHERE tenant_id = :tenant AND namespace IN :namespaces AND {condition}
    OFFSET 0
) scanned
ORDER BY distance, chunk_id LIMIT :limit
"""

_NEAREST_TO_EACH = (
    "WITH own AS MATERIALIZED (SELECT chunk_id, embedding FROM {table}"
    " WHERE tenant_id = :tenant AND namespace IN :namespaces AND {condition}) "
    + for_each_query(
        "SELECT chunk_id, embedding {operator} CAST(:query AS halfvec) AS distance FROM own"
        " ORDER BY distance, chunk_id LIMIT :limit"
    )
)

_SCORES = (
    "SELECT chunk_id, embedding {operator} CAST(%(query)s AS halfvec) FROM {table}"
    " WHERE tenant_id = %(tenant)s AND chunk_id = ANY(CAST(%(ids)s AS uuid[]))"
)

# Joined to the list of ids, so that the primary key is used whatever the planner assumes.
_SCORES_OF_EACH = (
    "SELECT asked.place, e.chunk_id, e.distance FROM unnest(CAST(%(queries)s AS halfvec[]), CAST(%(ids)s AS text[]))"
    " WITH ORDINALITY AS asked(query, ids, place) CROSS JOIN LATERAL unnest(CAST(asked.ids AS uuid[])) AS listed(chunk_id)"
    " CROSS JOIN LATERAL (SELECT chunk_id, embedding {operator} asked.query AS distance FROM {table}"
    " WHERE tenant_id = %(tenant)s AND chunk_id = listed.chunk_id OFFSET 0) e"
)


def as_sent(vectors: NDArray[np.float32]) -> list[bytes]:
    """Return each row in the binary form of a halfvec: its length, two unused bytes, and the big-endian halves."""
    head = np.array([vectors.shape[1], 0], dtype=">u2").tobytes()
    return [head + halves.tobytes() for halves in vectors.astype(">f2")]


def _as_received(sent: bytes) -> NDArray[np.float32]:
    """Decode one row of `as_sent`."""
    return np.frombuffer(sent, dtype=">f2", offset=4).astype(np.float32)


_SET_READERS = (
    "UPDATE {table} SET readers = CAST(:readers AS text[]) WHERE tenant_id = :tenant AND namespace = :namespace"
    " AND document_id = ANY(:documents) AND readers IS DISTINCT FROM CAST(:readers AS text[])"
)


def copy_rows(cursor: Any, table: str, columns: str, types: list[str], rows: Sequence[tuple[Any, ...]]) -> None:
    """Copy rows into a table in the binary format; ``columns`` is a list separated by commas."""
    with cursor.copy(f"COPY {table} ({columns}) FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types(types)
        for row in rows:
            copy.write_row(row)


def _of_chunk(columns: Mapping[str, Any], chunk: Chunk) -> Iterable[Any]:
    """Return the document's columns with the chunk's own story time, if any, and whether it is a pair."""
    segment = chunk.passage.segment
    if segment is not None and segment.story_time is not None:
        columns = {**columns, "story_time": segment.story_time}
    if chunk.passage.chunk_type == PAIR_TYPE:
        columns = {**columns, "metadata": Jsonb({**columns["metadata"].obj, **MARK})}
    return columns.values()


def _filter_columns(fields: DocumentFields) -> dict[str, Any]:
    values = {name: getattr(fields, name) for name in FILTERED}
    readers = None if fields.readers is None else list(fields.readers)
    return values | {"tags": list(fields.tags), "metadata": Jsonb(dict(fields.metadata)), "readers": readers}


_CONFIRMED_FOR_S = 5.0  # a confirmation holds this long where vectors are only added


class LiveVectors(Vectors):
    """The vectors of the live spaces. Reads use the active space, deletions every live one, and writes that of the
    model that made the vectors, so that they never end up among another model's."""

    def __init__(
        self,
        postgres: Engine,
        tenant_id: TenantId,
        *,
        distance: Distance,
        spaces: LiveSpaces,
        confirm: Callable[..., object],
        require_tenant: RequireTenant = none_required,
    ) -> None:
        """``confirm``: `Installation.confirm`, called before anything is written or deleted."""
        table = spaces.active.table
        super().__init__(postgres, tenant_id, distance=distance, table=table, require_tenant=require_tenant)
        self.spaces = spaces
        self._confirm = confirm

    def upsert(
        self,
        chunks: Sequence[Chunk],
        vectors: NDArray[np.float32],
        *,
        fields: Mapping[Generation, DocumentFields],
        model: str,
    ) -> None:
        """Store vectors in the space of ``model``. Raises VectorsMissing if none is live, WrongInstallation."""
        if not chunks:
            return
        space = self.spaces.of(model, vectors.shape[1])
        if space is None:
            raise VectorsMissing(f"no live embedding space takes vectors of {model} with {vectors.shape[1]} numbers")
        self._confirm(within_s=_CONFIRMED_FOR_S)
        self._of(space.table).upsert(chunks, vectors, fields=fields, model=model)

    def drop(self, generations: Sequence[Generation]) -> None:
        """Delete the vectors of exactly these generations in every live space. Raises WrongInstallation."""
        if generations:
            self._confirm()
        for space in self.spaces.every:
            self._of(space.table).drop(generations)

    def drop_others(self, generations: Sequence[Generation], kept: Sequence[ChunkId]) -> None:
        """Delete the same in every live space. Raises WrongInstallation."""
        if generations:
            self._confirm(within_s=_CONFIRMED_FOR_S)
            for space in self.spaces.every:
                self._of(space.table).drop_others(generations, kept)

    def set_readers(
        self, namespace: Namespace, document_ids: Sequence[DocumentId], readers: tuple[str, ...] | None
    ) -> None:
        """Give the vectors of these documents other readers in every live space. Raises WrongInstallation."""
        self._confirm(within_s=_CONFIRMED_FOR_S)
        written = None if readers is None else list(readers)
        values = {
            "tenant": self._tenant_id,
            "namespace": namespace,
            "documents": list(document_ids),
            "readers": written,
        }
        for space in self.spaces.every:
            with space_errors(space.table), self._postgres.begin() as connection:
                connection.execute(text(_SET_READERS.format(table=space.table)), values)

    def forget(self, chunk_ids: Sequence[ChunkId]) -> None:
        """Delete exactly these vectors in every live space. Raises WrongInstallation."""
        if chunk_ids:
            self._confirm()
        for space in self.spaces.every:
            AlignedVectors(self._postgres, self._tenant_id, table=space.table).delete(chunk_ids)

    def complete(
        self, expected: Mapping[Generation, int], counts: Mapping[Generation, int]
    ) -> dict[int, set[Generation]]:
        """Return by space which generations have as many vectors as expected. ``counts``: those in the active space."""
        by_space = {self.spaces.active.number: counts}
        if self.spaces.standby is not None:
            by_space[self.spaces.standby.number] = self._of(self.spaces.standby.table).counts(list(expected))
        return {
            number: {g for g, count in expected.items() if counts_in_space[g] == count}
            for number, counts_in_space in by_space.items()
        }

    def _of(self, table: str) -> Vectors:
        require = self._require_tenant
        return Vectors(self._postgres, self._tenant_id, distance=self._distance, table=table, require_tenant=require)
