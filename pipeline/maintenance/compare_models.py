"""Compare the model in use with the next one, on queries of the operator or of the installation."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import structlog

from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents.chunk_store import Chunks
from pipeline.embedding import space_store
from pipeline.embedding.migration_store import ModelMigrations
from pipeline.embedding.model_comparison import ComparedQuery, ComparisonResult, Gate, judge
from pipeline.errors import MigrationRefused, Unavailable
from pipeline.maintenance import sample_query_store
from pipeline.maintenance.sample_query_store import SampleQuery
from pipeline.models.ports import Matrix, query_vectors
from pipeline.records import EmbeddingSpace, Filters, Namespace, TenantId
from pipeline.resources import Resources

log = structlog.get_logger(__name__)

_READ_AHEAD = 4  # chunks read for each one wanted: some belong to generations that are not shown


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenQuery:
    """A question to both models, with judged documents, if there are any."""

    tenant_id: TenantId
    namespaces: tuple[Namespace, ...]
    text: str
    grades: Mapping[str, int] | None = None


def compare_models(
    number: int, queries: Sequence[GoldenQuery], gate: Gate, use: Resources, *, sample: int
) -> ComparisonResult:
    """Ask both models, judge, and store the verdict with the migration; ``switch`` requires a passed one. Without
    ``queries`` up to ``sample`` come from searches or the texts. Only numbers are stored. Raises MigrationRefused, and
    the models' errors."""
    with unit_of_work(use.mysql) as work:
        migration = ModelMigrations(work.connection).one(number)
        live = space_store.live(work.connection, use.spaces.base)
    if migration is None:
        raise MigrationRefused(f"there is no migration {number}", code="migration_not_found")
    if migration.state not in ("ready", "switched"):
        raise MigrationRefused(f"migration {number} is {migration.state}; it can be compared once it is ready")
    source = live.numbered(migration.source)
    if source is None:
        raise MigrationRefused(f"space {migration.source} is not live any more")
    compared = list(queries) or sampled(sample, use)
    answered = _ask_both(compared, source, migration.space, gate.k, use)
    verdict = judge(answered, gate)
    with unit_of_work(use.mysql) as work:
        noted: dict[str, Any] = {**asdict(verdict), **asdict(gate), "sampled": not queries}
        ModelMigrations(work.connection).record_comparison(
            number, {**noted, "compared_at": datetime.now(UTC).isoformat()}
        )
    log.info("models_compared", space=number, queries=verdict.queries, overlap=verdict.overlap, passed=verdict.passed)
    return verdict


def sampled(count: int, use: Resources) -> list[GoldenQuery]:
    """Return the latest stored queries, completed with beginnings of chunks."""
    try:
        samples = sample_query_store.recent(use.redis, limit=count)
    except Unavailable as error:
        log.warning("queries_not_sampled", code=error.code)
        samples = []
    with unit_of_work(use.mysql) as work:
        tenants = sample_query_store.tenants(work.connection)
        tries = 0
        while tenants and len(samples) < count and tries < 4 * count:
            tries += 1
            text = sample_query_store.beginning_of_a_chunk(work.connection, random.choice(tenants), str(uuid.uuid4()))
            samples += [text] if text is not None else []
    return [_golden(sample_query) for sample_query in samples]


def _golden(sample: SampleQuery) -> GoldenQuery:
    return GoldenQuery(tenant_id=sample.tenant_id, namespaces=sample.namespaces, text=sample.text)


def _ask_both(
    queries: Sequence[GoldenQuery], source: EmbeddingSpace, target: EmbeddingSpace, k: int, use: Resources
) -> list[ComparedQuery]:
    texts = [query.text for query in queries]
    if not texts:
        return []
    by_space = {space: query_vectors(use.spaces.embedder(space), texts) for space in (source, target)}
    answered = []
    for index, query in enumerate(queries):
        chunks, documents = {}, {}
        for space, vectors in by_space.items():
            chunks[space], documents[space] = _nearest(query, space, vectors[index : index + 1], k, use)
        answered.append(
            ComparedQuery(
                active_chunks=chunks[source],
                target_chunks=chunks[target],
                active_documents=documents[source],
                target_documents=documents[target],
                grades=query.grades,
            )
        )
    return answered


def _nearest(
    query: GoldenQuery, space: EmbeddingSpace, vector: Matrix, k: int, use: Resources
) -> tuple[list[str], list[str]]:
    """Return the nearest published chunks, and their documents, each once."""
    nearest = use.vectors_in(space, query.tenant_id).nearest(
        vector[0], namespaces=query.namespaces, filters=Filters(), limit=_READ_AHEAD * k
    )
    ids = [chunk_id for chunk_id, _ in nearest]
    with unit_of_work(use.mysql) as work:
        shown = Chunks(work.connection, query.tenant_id).hydrate(ids, namespaces=query.namespaces)
    chunks = [chunk_id for chunk_id in ids if chunk_id in shown]
    documents = list(dict.fromkeys(shown[chunk_id].document_id for chunk_id in chunks))
    return [str(chunk_id) for chunk_id in chunks[:k]], documents[:k]
