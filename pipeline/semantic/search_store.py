"""Searches among one tenant's vectors: exact for most tenants, through approximate indexes for large ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import structlog
from numpy.typing import NDArray
from sqlalchemy import Engine, TextClause, text

from pipeline.caches import RecentValues
from pipeline.database.postgres_tables import FILTERED
from pipeline.database.statements import sql
from pipeline.distances import MEASURES, Distance
from pipeline.filters.sql_filters import postgres_condition
from pipeline.outages import replace_in_outage
from pipeline.query.request import RecallGuard
from pipeline.records import Caps, ChunkId, Filters, Namespace, TenantId
from pipeline.semantic.index_plan import gaps
from pipeline.semantic.search_plan import PassingChunks, Sample, SearchPlan, VisitedRows, plan_search, replan
from pipeline.semantic.vector_index_store import (
    KnownIndexes,
    TenantIndexes,
    indexed_rows,
    numbered_rows,
    scan_settings,
    set_values,
)
from pipeline.semantic.vector_store import Vectors, for_each_query, halfvec_literal, space_errors
from pipeline.threads import start_call

log = structlog.get_logger(__name__)

Near = tuple[ChunkId, float]
ListPassing = Callable[[Sequence[Namespace]], PassingChunks | None]
Matrix = NDArray[np.float32]

_SAMPLED_ROWS = 1000
_SAMPLES_KEPT = 4096
_MOST_TIED = 2_500  # rows of one distance that are compared by id
_MOST_SEARCHES = 8  # within caps
EXACT_CHUNKS = 5_000  # of a tenant up to which all are compared; more get vector indexes
_SAMPLE_FRESH_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestChunks:
    """The hits of a search, nearest first, ties by chunk id, and the path taken."""

    hits: tuple[Near, ...]
    guard: RecallGuard


class Samples(RecentValues[Hashable, Sample]):
    """The share of a large tenant's rows that recent filters pass."""

    def __init__(self) -> None:
        super().__init__(_SAMPLES_KEPT, ttl_s=_SAMPLE_FRESH_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTools:
    """Parts that all searches of a process share. ``indexed``: connections that plan approximate indexes only."""

    exact: Engine
    indexed: Callable[[], Engine]
    known: KnownIndexes
    samples: Samples
    distance: Distance
    exact_chunks: int


class VectorSearch:
    """One tenant's vectors in one embedding space."""

    def __init__(self, tools: SearchTools, tenant_id: TenantId, *, table: str) -> None:
        self._tools = tools
        self._tenant_id = tenant_id
        self._table = table

    def nearest(
        self,
        vector: Matrix,
        *,
        namespaces: Sequence[Namespace],
        filters: Filters,
        limit: int,
        per_namespace: int | None = None,
        passing: ListPassing | None = None,
        caps: Caps | None = None,
    ) -> NearestChunks:
        """Return up to ``limit`` chunks with their scores, as in ``Vectors.nearest``; of each namespace
        ``per_namespace`` at most. ``passing`` lists the chunks of namespaces that pass the filters; None if they are
        too many or unknown. ``caps``: caps on documents and equal texts, within which ``per_namespace`` does not count.

        Exact for tenants without an index, and for filters that let few rows pass. If indexes give too few rows, or
        fewer rows pass near the question than elsewhere, more lists are read; then the rows that pass, or every row.
        Raises VectorTableMissing and StoreUnavailable.
        """
        request = _SearchRequest(
            vector=halfvec_literal(vector),
            namespaces=tuple(sorted(namespaces)),
            filters=filters,
            limit=limit,
            passing=passing if filters else None,
        )
        if caps is not None:
            return self._within_caps(request, caps)
        if per_namespace is None:
            return self._search(request)
        index = self._tools.known.of(self._tenant_id, self._table)
        if index is None:
            return self._exactly(request, per_namespace=per_namespace)
        # A namespace may be small, so each one is planned separately.
        first, *others = (
            replace(request, namespaces=(namespace,), limit=min(limit, per_namespace))
            for namespace in request.namespaces
        )
        searches = [start_call(self._search, other) for other in others]
        results = [self._search(first), *(search.result() for search in searches)]
        hits = sorted((hit for result in results for hit in result.hits), key=lambda hit: (-hit[1], hit[0]))
        return NearestChunks(hits=tuple(hits[:limit]), guard=_joint_guard([result.guard for result in results]))

    def nearest_to_each(
        self, vectors: Sequence[Matrix], *, namespaces: Sequence[Namespace], filters: Filters, limit: int
    ) -> list[NearestChunks | None]:
        """Return `nearest` for each of these vectors by one statement; None for those that need more than that."""
        names = tuple(sorted(namespaces))
        request = _SearchRequest(vector="", namespaces=names, filters=filters, limit=limit)
        literals = [halfvec_literal(vector) for vector in vectors]
        index = self._tools.known.of(self._tenant_id, self._table)
        plan = None if index is None else self._plan(request, index)
        if plan is not None and plan.by_id:
            return [None] * len(vectors)
        if plan is not None and plan.indexed:
            each = self._read_lists(replace(request, limit=limit + 1), plan, literals)
            return [self._complete(near, plan, limit) for near in each]
        every = Vectors(self._tools.exact, self._tenant_id, distance=self._tools.distance, table=self._table)
        guard = RecallGuard(method="exact", rows=None if plan is None else plan.rows)
        found = every.nearest_to_each(literals, namespaces=names, filters=filters, limit=limit)
        return [NearestChunks(hits=tuple(hits), guard=guard) for hits in found]

    def _complete(self, near: Sequence[Any], plan: SearchPlan, limit: int) -> NearestChunks | None:
        """Return the result of a search through indexes if no further one is needed."""
        hits, visited = self._visited(near[:limit])
        if _parts_equals(near, limit) or replan(plan, visited, limit=limit) is not plan:
            return None
        return NearestChunks(hits=tuple(hits), guard=_guard_of(plan, visited))

    def _within_caps(self, request: _SearchRequest, caps: Caps) -> NearestChunks:
        """Return the nearest chunks within the caps: exactly, or through indexes without the documents and texts that have
        their number of hits, in up to eight searches."""
        if self._tools.known.of(self._tenant_id, self._table) is None:
            per_document, texts = caps.per_document or request.limit, 1 if caps.contents else request.limit
            condition, values = self._condition(request, per_document=per_document, texts=texts)
            nearest = self._hits(text(self._fill(_EXACT_WITHIN_CAPS, condition)), values)
            return NearestChunks(hits=nearest, guard=RecallGuard(method="exact"))
        hits_by_id: dict[ChunkId, Near] = {}
        of_document: Counter[tuple[str, str]] = Counter()
        hashes: set[str] = set()
        for _ in range(_MOST_SEARCHES):
            full = tuple(document for document, hits in of_document.items() if hits == caps.per_document)
            result = self._search(replace(request, full=full, hashes=tuple(sorted(hashes))))
            before = len(hits_by_id)
            origins = self._origins([chunk_id for chunk_id, _ in result.hits if chunk_id not in hits_by_id])
            for hit in result.hits:
                if hit[0] not in origins or (origin := origins[hit[0]])[1] in hashes:
                    continue
                document, content = origin
                if of_document[document] == caps.per_document:
                    continue
                of_document[document] += 1
                hits_by_id[hit[0]] = hit
                hashes.update([content] if caps.contents else [])
            if len(result.hits) < request.limit or len(hits_by_id) >= request.limit or len(hits_by_id) == before:
                break
        hits = sorted(hits_by_id.values(), key=lambda hit: (-hit[1], hit[0]))
        is_short = len(result.hits) >= request.limit and len(hits) < request.limit
        guard = replace(result.guard, may_be_short=result.guard.may_be_short or is_short)
        return NearestChunks(hits=tuple(hits[: request.limit]), guard=guard)

    def _origins(self, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, tuple[tuple[str, str], str]]:
        """Return the namespace and document of these chunks, and the hash of their text, by id."""
        values = {"tenant": self._tenant_id, "ids": f"{{{','.join(chunk_ids)}}}"}
        with space_errors(self._table), self._tools.exact.connect() as connection:
            rows = connection.execute(text(_ORIGINS.format(table=self._table)), values).all()
        return {
            ChunkId(chunk_id): ((namespace, document_id), digest) for chunk_id, namespace, document_id, digest in rows
        }

    def _search(self, request: _SearchRequest) -> NearestChunks:
        index = self._tools.known.of(self._tenant_id, self._table)
        if index is None:
            return self._exactly(request)
        plan = self._plan(request, index)
        if plan.by_id and (result := self._by_id(request, rows=plan.rows)) is not None:
            return result
        return self._through_indexes(request, plan) if plan.indexed else self._exactly(request, rows=plan.rows)

    def _plan(self, request: _SearchRequest, index: TenantIndexes) -> SearchPlan:
        key = (self._table, self._tenant_id, request.namespaces, repr(request.filters), request.full, request.hashes)
        return plan_search(
            ranges=index.ranges,
            tail=index.tail,
            sample=self._tools.samples.get(key, lambda: self._sample(request)),
            limit=request.limit,
            exact_chunks=self._tools.exact_chunks,
        )

    def _sample(self, request: _SearchRequest) -> Sample:
        """Sample the lowest chunk ids: they are hashes, so these are as random as any, and always the same."""
        condition, values = self._condition(request, taken=_SAMPLED_ROWS)
        with space_errors(self._table), self._tools.exact.connect() as connection:
            statement = text(_SAMPLE.format(table=self._table, condition=condition, columns=", ".join(FILTERED)))
            taken, named, passing = connection.execute(statement, values).one()
        return Sample(taken=taken, named=named, passing=passing)

    def _exactly(
        self, request: _SearchRequest, *, rows: int | None = None, per_namespace: int | None = None
    ) -> NearestChunks:
        guard = RecallGuard(method="exact", rows=rows)
        if per_namespace is None and not request.full and not request.hashes:
            exact, measured = self._tools.exact, self._tools.distance
            vectors = Vectors(exact, self._tenant_id, distance=measured, table=self._table)
            hits = vectors.nearest(
                request.vector, namespaces=request.namespaces, filters=request.filters, limit=request.limit
            )
            return NearestChunks(hits=tuple(hits), guard=guard)
        condition, values = self._condition(request, each=per_namespace or request.limit)
        return NearestChunks(hits=self._hits(text(self._fill(_EXACT_EACH, condition)), values), guard=guard)

    def _hits(self, statement: TextClause, values: dict[str, Any]) -> tuple[Near, ...]:
        with space_errors(self._table), self._tools.exact.connect() as connection:
            rows = connection.execute(statement, values).all()
        return tuple(
            (ChunkId(chunk_id), MEASURES[self._tools.distance].similarity(distance)) for chunk_id, distance in rows
        )

    def _by_id(self, request: _SearchRequest, *, rows: int) -> NearestChunks | None:
        """Compare the rows that pass the filters, applied again; None if the keyword index cannot list them."""
        passing = None if request.passing is None else request.passing(request.namespaces)
        if passing is None:
            return None
        ids = "{" + ",".join(chunk_id.hex() for chunk_id in passing.chunk_ids) + "}"
        condition, values = self._condition(request, ids=ids)
        parts = [self._fill(_OF_IDS, condition)]
        if passing.changed:
            parts.append(self._fill(_OF_DOCUMENTS, condition))
            values["changed_in"] = [namespace for namespace, _ in passing.changed]
            values["changed"] = [document_id for _, document_id in passing.changed]
        statement = text(_NEAREST_OF.format(parts=" UNION ALL ".join(parts)))
        guard = RecallGuard(method="exact", rows=rows, scanned=len(passing.chunk_ids))
        return NearestChunks(hits=self._hits(statement, values), guard=guard)

    def _through_indexes(self, request: _SearchRequest, plan: SearchPlan) -> NearestChunks:
        hits, visited = self._listed(request, plan)
        better = replan(plan, visited, limit=request.limit)
        if better is not None and better is not plan:
            hits, visited = self._listed(request, better)
            better = better if visited.hits == request.limit else None
        guard = _guard_of(plan, visited)
        if better is not None:
            return NearestChunks(hits=tuple(hits), guard=guard)
        log.info(
            "index_search_repeated", tenant_id=self._tenant_id, asked=request.limit, given=len(hits), rows=plan.rows
        )

        def exactly() -> NearestChunks:
            exact = self._by_id(request, rows=plan.rows) or self._exactly(request, rows=plan.rows)
            return replace(
                exact, guard=replace(exact.guard, method=f"{guard.method}+exact_fallback", scanned=visited.rows)
            )

        short = NearestChunks(hits=tuple(hits), guard=replace(guard, recall=None, may_be_short=True))
        return replace_in_outage(exactly, lambda _: short if hits else None)

    def _listed(self, request: _SearchRequest, plan: SearchPlan) -> tuple[list[Near], VisitedRows]:
        """Return the nearest rows of the lists that the plan reads and of the rows outside the indexes, nearest first. If
        the limit parts equally near rows, more are read, so that those with the lowest chunk ids are returned."""
        limit = request.limit
        [near] = self._read_lists(replace(request, limit=limit + 1), plan, [request.vector])
        if _parts_equals(near, limit):
            wider = replace(plan, longest_scan=max(plan.longest_scan, _MOST_TIED))
            [near] = self._read_lists(replace(request, limit=max(limit, _MOST_TIED)), wider, [request.vector])
        return self._visited(near[:limit])

    def _visited(self, near: Sequence[Any]) -> tuple[list[Near], VisitedRows]:
        """Return the hits of these rows, and how far the indexes were searched for them."""
        similarity, visited = MEASURES[self._tools.distance].similarity, dict[int, int]()
        for _, _, _, place, part in near:
            if place > visited.get(part, 0):
                visited[part] = place
        hits = [(ChunkId(chunk_id), similarity(distance)) for chunk_id, distance, *_ in near]
        passing = sum(part > 0 for *_, part in near)
        return hits, VisitedRows(hits=len(hits), rows=sum(visited.values()), passing=passing)

    def _read_lists(self, request: _SearchRequest, plan: SearchPlan, queries: Sequence[str]) -> list[Sequence[Any]]:
        """Return for each query the rows of chunk id, distance, whether it passes, and where it was visited, nearest
        first."""
        most = request.limit + len(plan.indexed)
        condition, values = self._condition(request, longest=plan.longest_scan, most=most)
        spans = [(indexed.first, indexed.end) for indexed in plan.indexed]
        ranges = [
            indexed_rows(self._tenant_id, [(each.first, each.end)], is_graph=each.is_graph) for each in plan.indexed
        ]
        parts = [self._fill(_INDEXED, condition, rows=rows, part=n) for n, rows in enumerate(ranges, start=1)]
        if uncovered := gaps(spans):
            parts.append(self._fill(_OUTSIDE, condition, rows=numbered_rows(self._tenant_id, uncovered)))
        statement = _PARTS.format(parts=" UNION ALL ".join(parts))
        if len(queries) > 1:
            statement, values["queries"] = for_each_query(statement), list(queries)
        with space_errors(self._table), self._tools.indexed().connect() as connection:
            wanted = scan_settings(ivfflat_probes=plan.probes, ef_search=plan.ef_search)
            if wanted.items() - connection.info.get("scan", {}).items():
                set_values(connection, wanted)
                connection.info["scan"] = connection.info.get("scan", {}) | wanted
            rows = connection.execute(sql(statement), values | {"query": queries[0]}).all()
        if len(queries) == 1:
            return [_before_last_visited(rows)]
        by_place: dict[int, list[Any]] = {place: [] for place in range(1, len(queries) + 1)}
        for row in rows:
            by_place[row[-1]].append(row[:-1])
        return [_before_last_visited(of_one) for of_one in by_place.values()]

    def _condition(self, request: _SearchRequest, **more: object) -> tuple[str, dict[str, Any]]:
        """Return the condition of the filters, and the values of a statement with it."""
        condition, values = postgres_condition(request.filters)
        own = {"tenant": self._tenant_id, "namespaces": list(request.namespaces)}
        if request.full or request.hashes:
            condition = f"{condition} AND {_NOT_FULL}"
            own |= {"full_in": [namespace for namespace, _ in request.full], "hashes": list(request.hashes)}
            own |= {"full": [document_id for _, document_id in request.full]}
        return condition, values | own | {"query": request.vector, "limit": request.limit} | more

    def _fill(self, shape: str, condition: str, **more: object) -> str:
        return shape.format(
            table=self._table, operator=MEASURES[self._tools.distance].operator, condition=condition, **more
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _SearchRequest:
    vector: str
    namespaces: tuple[Namespace, ...]
    filters: Filters
    limit: int
    passing: ListPassing | None = None
    full: tuple[tuple[str, str], ...] = ()  # documents, by namespace and id, and texts, by hash, that are left out
    hashes: tuple[str, ...] = ()


def _before_last_visited(rows: Sequence[Any]) -> Sequence[Any]:
    """Return the rows before the first that does not pass: it is the last one that an index scan visited, and rows farther
    away may be incomplete."""
    return rows[: next((at for at, (_, _, passes, _, _) in enumerate(rows) if not passes), len(rows))]


def _parts_equals(near: Sequence[Any], limit: int) -> bool:
    """Return whether the limit parts equally near rows."""
    return len(near) > limit and near[limit][1] == near[limit - 1][1]


def _guard_of(plan: SearchPlan, visited: VisitedRows) -> RecallGuard:
    recall = _least(indexed.recall for indexed in plan.indexed)
    return RecallGuard(
        method=_joint_method("hnsw" if indexed.is_graph else "ivfflat" for indexed in plan.indexed),
        rows=plan.rows,
        scanned=visited.rows,
        indexes=len(plan.indexed),
        recall=None if recall is None else round(recall, 3),
    )


def _least(recalls: Iterable[float | None]) -> float | None:
    """Return the least of these recalls; None if one of them is unknown, or there is none."""
    values = list(recalls)
    return None if None in values else min((recall for recall in values if recall is not None), default=None)


def _joint_method(methods: Iterable[str]) -> str:
    """Return the parts of these methods, in order: `exact` alone, or the indexes with `exact_fallback`."""
    parts = {part for method in methods for part in method.split("+")}
    return "+".join(part for part in ("hnsw", "ivfflat", "exact_fallback") if part in parts) or "exact"


def _joint_guard(guards: Sequence[RecallGuard]) -> RecallGuard:
    scanned = [guard.scanned for guard in guards if guard.scanned is not None]
    return RecallGuard(
        method=_joint_method(guard.method for guard in guards),
        rows=sum(guard.rows or 0 for guard in guards),
        scanned=sum(scanned) if scanned else None,
        indexes=max(guard.indexes for guard in guards),
        recall=_least(guard.recall for guard in guards if guard.method != "exact"),
        may_be_short=any(guard.may_be_short for guard in guards),
    )


_NEAREST_OF = "SELECT chunk_id, distance FROM ({parts}) compared ORDER BY distance, chunk_id LIMIT :limit"

# Joined to a list of ids, so that the primary key is used whatever the planner assumes about the filter.
_OF_IDS = """
SELECT t.chunk_id, t.distance FROM unnest(CAST(:ids AS uuid[])) AS listed(chunk_id) CROSS JOIN LATERAL (
    SELECT chunk_id, embedding {operator} CAST(:query AS halfvec) AS distance
    FROM {table}
    WHERE tenant_id = :tenant AND chunk_id = listed.chunk_id AND namespace = ANY(:namespaces) AND {condition}
    OFFSET 0
) t
"""

_OF_DOCUMENTS = """
SELECT t.chunk_id, t.distance
FROM unnest(CAST(:changed_in AS text[]), CAST(:changed AS text[])) AS changed(namespace, document_id) CROSS JOIN LATERAL (
    SELECT chunk_id, embedding {operator} CAST(:query AS halfvec) AS distance
    FROM {table}
    WHERE tenant_id = :tenant AND namespace = changed.namespace AND document_id = changed.document_id AND {condition}
    OFFSET 0
) t
"""

_NOT_FULL = (
    "NOT EXISTS (SELECT 1 FROM unnest(CAST(:full_in AS text[]), CAST(:full AS text[])) AS crowded(its_namespace, its_id)"
    " WHERE crowded.its_namespace = namespace AND crowded.its_id = document_id)"
    " AND encode(content_hash, 'hex') <> ALL(CAST(:hashes AS text[]))"
)

_ORIGINS = (
    "SELECT chunk_id, namespace, document_id, encode(content_hash, 'hex') FROM {table}"
    " WHERE tenant_id = :tenant AND chunk_id = ANY(CAST(:ids AS uuid[]))"
)

# Numbered among the equal texts, and then among those of a document.
_EXACT_WITHIN_CAPS = """
SELECT chunk_id, distance FROM (
    SELECT chunk_id, distance,
        row_number() OVER (PARTITION BY namespace, document_id ORDER BY distance, chunk_id) AS of_document
    FROM (
        SELECT chunk_id, namespace, document_id, distance,
            row_number() OVER (PARTITION BY content_hash ORDER BY distance, chunk_id) AS of_text
        FROM (
            SELECT chunk_id, namespace, document_id, content_hash,
                embedding {operator} CAST(:query AS halfvec) AS distance
            FROM {table}
            WHERE tenant_id = :tenant AND namespace = ANY(:namespaces) AND {condition}
            OFFSET 0
        ) scanned
    ) numbered
    WHERE of_text <= :texts
) capped
WHERE of_document <= :per_document
ORDER BY distance, chunk_id LIMIT :limit
"""

_EXACT_EACH = """
SELECT near.chunk_id, near.distance FROM unnest(CAST(:namespaces AS text[])) AS named(namespace) CROSS JOIN LATERAL (
    SELECT chunk_id, distance FROM (
        SELECT chunk_id, embedding {operator} CAST(:query AS halfvec) AS distance
        FROM {table}
        WHERE tenant_id = :tenant AND namespace = named.namespace AND {condition}
        OFFSET 0
    ) scanned
    ORDER BY distance, chunk_id LIMIT :each
) near
ORDER BY near.distance, near.chunk_id LIMIT :limit
"""

# One statement for all parts: a row that moves from one to another meanwhile is seen once.
_PARTS = """
SELECT chunk_id, distance, passes, place, part FROM ({parts}) parts ORDER BY distance, chunk_id LIMIT :most
"""

# The filter stands outside the scan, so that visited rows are counted. Unless enough of them pass, the last row to be
# visited is returned even if it does not pass: it tells how far out the index was searched.
_INDEXED = """
(SELECT chunk_id, distance, passes, place, {part} AS part FROM (
    SELECT chunk_id, distance, passes, row_number() OVER () AS place FROM (
        SELECT chunk_id, embedding {operator} CAST(:query AS halfvec) AS distance,
            (namespace = ANY(:namespaces) AND {condition}) AS passes
        FROM {table} WHERE {rows}
        ORDER BY embedding {operator} CAST(:query AS halfvec) LIMIT :longest
    ) visited
) numbered
WHERE passes OR place = :longest LIMIT :limit)
"""

# Rows that no index covers; fenced, as above.
_OUTSIDE = """
(SELECT chunk_id, distance, true AS passes, 0 AS place, 0 AS part FROM (
    SELECT chunk_id, embedding {operator} CAST(:query AS halfvec) AS distance
    FROM {table} WHERE {rows} AND namespace = ANY(:namespaces) AND {condition}
    OFFSET 0
) scanned
ORDER BY distance, chunk_id LIMIT :limit)
"""

_SAMPLE = """
SELECT count(*), count(*) FILTER (WHERE namespace = ANY(:namespaces)),
    count(*) FILTER (WHERE namespace = ANY(:namespaces) AND {condition})
FROM (
    SELECT namespace, document_id, content_hash, {columns}
    FROM {table} WHERE tenant_id = :tenant ORDER BY chunk_id LIMIT :taken
) taken
"""
