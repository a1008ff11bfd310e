"""Migrate an installation to another embedding model without stopping searches: begin, fill stepwise, compare
both models, switch, roll back, end.

While both spaces are live, every change is written to both or recorded with it (`ingestion/make_vectors`), so one pass over
older chunks suffices and the next proves it. A step may fail or run twice.
"""

import random
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog

from chordwise.contract.migration import Comparison, EmbeddingMigration
from pipeline.database.rows import now
from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents.chunk_store import Chunks
from pipeline.embedding import space_store
from pipeline.embedding.migration_store import MigrationState, ModelMigration, ModelMigrations
from pipeline.embedding.model_comparison import ComparedQuery, Gate, GoldenQuery, judge
from pipeline.errors import MigrationRefused
from pipeline.maintenance import sample_query_store
from pipeline.models.local_embedder import query_vectors
from pipeline.models.make_models import check_embedder, make_space_embedder
from pipeline.models.ports import Matrix
from pipeline.outages import tolerate_outage
from pipeline.query.request import copied
from pipeline.records import EmbeddingSpace, Filters
from pipeline.resources import Resources

log = structlog.get_logger(__name__)

_KNOWN_EVERYWHERE_S = 3.0  # by then every process has read the pointer again


def start(provider: str, model: str, dimension: int, service: str, use: Resources) -> ModelMigration:
    """Begin a migration to another model, after one call of it. Return a running migration to the same model instead.

    Raises MigrationRefused, Misconfigured for a wrong model or dimension, EmbedderUnavailable."""
    name = space_store.model_name(provider, model, dimension)
    if service == "next" and not use.settings.embedding_next_base_url:
        raise MigrationRefused("CHORDWISE_EMBEDDING_NEXT_BASE_URL is not set", code="service_not_set")
    trial = EmbeddingSpace(number=0, provider=provider, model=name, dimension=dimension, service=service)
    embedder = make_space_embedder(use.settings, trial)
    try:
        check_embedder(embedder, timeout_s=10.0)
    finally:
        embedder.close()
    with unit_of_work(use.mysql) as work:
        space_store.lock(work.connection)
        migrations = ModelMigrations(work.connection)
        live = space_store.live(work.connection, use.spaces.base)
        under_way = next((migration for migration in migrations.every() if migration.open), None)
        if under_way is not None:
            same = (under_way.space.provider, under_way.space.model, under_way.space.dimension)
            if same == (provider, name, dimension) and under_way.state in ("backfilling", "verifying", "ready"):
                return under_way
            raise MigrationRefused(f"migration {under_way.space.number} is {under_way.state}", code="migration_open")
        active = live.active
        if (active.model, active.dimension) == (name, dimension):
            raise MigrationRefused("this is the model in use", code="same_model")
        if active.service == "next":
            active = _resettled(active, use)
        number = migrations.next_number()
        target = replace(trial, number=number, table=f"chunk_embeddings_{number}")
        space_store.create_table(use.postgres, target, like=active)
        migrations.add(target, active, begin_after_s=_KNOWN_EVERYWHERE_S)
        space_store.point(work.connection, active.number, target.number)
        begun = migrations.one(number)
    assert begun is not None
    log.info("migration_started", space=number, model=name, dimension=dimension)
    return begun


def _resettled(active: EmbeddingSpace, use: Resources) -> EmbeddingSpace:
    """Return the space in use, at the service of the OPENAI_ variables, where its settings must be by now."""
    if use.settings.embedding_next_base_url:
        raise MigrationRefused(
            "the model in use is still at CHORDWISE_EMBEDDING_NEXT_BASE_URL; move that to OPENAI_BASE_URL first",
            code="service_in_use",
        )
    return replace(active, service="default")


def status(number: int, use: Resources) -> EmbeddingMigration | None:
    """Return the status of a migration, None if there never was one of this number."""
    with unit_of_work(use.mysql) as work:
        migrations = ModelMigrations(work.connection)
        migration = migrations.one(number)
        return None if migration is None else _status(work.connection, migration, use)


def every_status(use: Resources) -> list[EmbeddingMigration]:
    """Return all migrations, latest first."""
    with unit_of_work(use.mysql) as work:
        return [_status(work.connection, migration, use) for migration in ModelMigrations(work.connection).every()]


def _status(connection: Any, migration: ModelMigration, use: Resources) -> EmbeddingMigration:
    live = space_store.live(connection, use.spaces.base)
    standby = live.standby.number if live.standby else 0
    is_its_own = standby in (migration.space.number, migration.source)
    space, comparison = migration.space, migration.comparison
    return copied(
        EmbeddingMigration,
        migration,
        **{name: getattr(space, name) for name in ("number", "provider", "model", "dimension", "service")},
        active=live.active.number == space.number,
        progress=ModelMigrations(connection).progress(space.number, migration.pass_number),
        behind=space_store.backlog_size(connection, standby) if standby and is_its_own else 0,
        comparison=None if comparison is None else Comparison(**comparison),
    )


def switch(number: int, use: Resources, *, skip_gate: bool = False, accept_missing: bool = False) -> None:
    """Let searches use the new model, in all processes within a second; both spaces stay live. Raises MigrationRefused
    while vectors are missing or the comparison has not passed."""
    with unit_of_work(use.mysql) as work:
        space_store.lock(work.connection)
        migration = _in_state(work.connection, number, "ready")
        behind = space_store.backlog_size(work.connection, number)
        if behind:
            raise MigrationRefused(f"{behind} documents wait for their vectors; try again soon", code="vectors_behind")
        if migration.missing and not accept_missing:
            detail = f"the new model gave no vector for {migration.missing} chunks"
            raise MigrationRefused(detail, code="vectors_missing")
        if not skip_gate:
            _check_gate(migration)
        space_store.point(work.connection, number, migration.source)
        ModelMigrations(work.connection).move(number, "switched", switched_at=now())
    use.spaces.live(fresh=True)
    log.info("migration_switched", space=number, gate_skipped=skip_gate)


def _check_gate(migration: ModelMigration) -> None:
    if migration.comparison is None:
        raise MigrationRefused("the models have not been compared yet", code="not_compared")
    if not migration.comparison["passed"]:
        raise MigrationRefused(f"the comparison did not pass: {migration.comparison['reason']}", code="gate_not_passed")


def rollback(number: int, use: Resources) -> int:
    """Return searches to the old model at once; return how many documents lack vectors there (failed since)."""
    with unit_of_work(use.mysql) as work:
        space_store.lock(work.connection)
        migration = _in_state(work.connection, number, "switched")
        behind = space_store.backlog_size(work.connection, migration.source)
        space_store.point(work.connection, migration.source, number)
        ModelMigrations(work.connection).move(number, "ready", switched_at=None)
    use.spaces.live(fresh=True)
    log.info("migration_rolled_back", space=number, behind=behind)
    return behind


def finish(number: int, use: Resources) -> None:
    """Drop the old vectors once no query can need them, in about half a minute. This cannot be undone."""
    _end(number, use, state="finishing", allowed=("switched",))


def abort(number: int, use: Resources) -> None:
    """Abort the migration and drop the new vectors."""
    _end(number, use, state="aborting", allowed=("backfilling", "verifying", "ready"))


def _end(number: int, use: Resources, *, state: MigrationState, allowed: tuple[MigrationState, ...]) -> None:
    with unit_of_work(use.mysql) as work:
        _in_state(work.connection, number, *allowed)
        due = now() + timedelta(seconds=use.settings.retired_grace_s)
        ModelMigrations(work.connection).move(number, state, next_step_at=due, lease_until=None)
    log.info("migration_ending", space=number, state=state)


def _in_state(connection: Any, number: int, *allowed: MigrationState) -> ModelMigration:
    migration = ModelMigrations(connection).one(number, lock=True)
    if migration is None:
        raise MigrationRefused(f"there is no migration {number}", code="migration_not_found")
    if migration.state not in allowed:
        raise MigrationRefused(f"migration {number} is {migration.state}, not {' or '.join(allowed)}")
    return migration


_READ_AHEAD = 4  # chunks read for each one wanted: some belong to generations that are not shown


def compare_models(
    number: int, queries: Sequence[GoldenQuery], gate: Gate, use: Resources, *, sample: int
) -> Comparison:
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
    verdict = judge(answered, gate, sampled=not queries, at=datetime.now(UTC))
    with unit_of_work(use.mysql) as work:
        ModelMigrations(work.connection).record_comparison(number, verdict)
    log.info("models_compared", space=number, queries=verdict.queries, overlap=verdict.overlap, passed=verdict.passed)
    return verdict


def sampled(count: int, use: Resources) -> list[GoldenQuery]:
    """Return the latest stored queries, completed with beginnings of chunks."""
    queries: list[GoldenQuery] = []
    with tolerate_outage(log.warning, "queries_not_sampled"):
        queries = sample_query_store.recent(use.redis, limit=count)
    with unit_of_work(use.mysql) as work:
        tenants = sample_query_store.tenants(work.connection)
        tries = 0
        while tenants and len(queries) < count and tries < 4 * count:
            tries += 1
            query = sample_query_store.beginning_of_a_chunk(work.connection, random.choice(tenants), str(uuid.uuid4()))
            queries += [query] if query is not None else []
    return queries


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
        shown = Chunks(work.connection, query.tenant_id).hydrate(ids, namespaces=query.namespaces, reads_as=None)
    chunks = [chunk_id for chunk_id in ids if chunk_id in shown]
    documents = list(dict.fromkeys(shown[chunk_id].document_id for chunk_id in chunks))
    return [str(chunk_id) for chunk_id in chunks[:k]], documents[:k]
