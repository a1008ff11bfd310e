"""Migrate an installation to another embedding model without stopping searches: begin, fill stepwise, switch, roll
back, end.

While both spaces are live, every change is written to both or recorded with it (`ingestion/standby`), so one pass over
older chunks suffices and the next proves it. A step may fail or run twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import structlog

from pipeline.database.rows import now
from pipeline.database.unit_of_work import unit_of_work
from pipeline.embedding import space_store, standby_backlog_store
from pipeline.embedding.migration_store import MigrationProgress, MigrationState, ModelMigration, ModelMigrations
from pipeline.errors import MigrationRefused
from pipeline.models.make_models import check_embedder, make_space_embedder
from pipeline.records import EmbeddingSpace
from pipeline.resources import Resources

log = structlog.get_logger(__name__)

_KNOWN_EVERYWHERE_S = 3.0  # by then every process has read the pointer again


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationStatus:
    """A migration, its progress, the documents without standby vectors, and the space that searches use."""

    migration: ModelMigration
    progress: MigrationProgress
    behind: int
    active: int


def start(provider: str, model: str, dimension: int, service: str, use: Resources) -> ModelMigration:
    """Begin a migration to another model; repeated, return the running one. Tries the model first. Raises
    MigrationRefused, Misconfigured for a wrong model or dimension, EmbedderUnavailable."""
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


def status(number: int, use: Resources) -> MigrationStatus | None:
    """Return the status of a migration, None if there never was one of this number."""
    with unit_of_work(use.mysql) as work:
        migrations = ModelMigrations(work.connection)
        migration = migrations.one(number)
        return None if migration is None else _status(work.connection, migration, use)


def every_status(use: Resources) -> list[MigrationStatus]:
    """Return all migrations, latest first."""
    with unit_of_work(use.mysql) as work:
        return [_status(work.connection, migration, use) for migration in ModelMigrations(work.connection).every()]


def _status(connection: Any, migration: ModelMigration, use: Resources) -> MigrationStatus:
    live = space_store.live(connection, use.spaces.base)
    standby = live.standby.number if live.standby else 0
    is_its_own = standby in (migration.space.number, migration.source)
    return MigrationStatus(
        migration=migration,
        progress=ModelMigrations(connection).progress(migration.space.number, migration.pass_number),
        behind=standby_backlog_store.size(connection, standby) if standby and is_its_own else 0,
        active=live.active.number,
    )


def switch(number: int, use: Resources, *, skip_gate: bool = False, accept_missing: bool = False) -> None:
    """Let searches use the new model, in all processes within a second; both spaces stay live. Raises MigrationRefused
    while vectors are missing or the comparison has not passed."""
    with unit_of_work(use.mysql) as work:
        space_store.lock(work.connection)
        migration = _in_state(work.connection, number, "ready")
        behind = standby_backlog_store.size(work.connection, number)
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
        behind = standby_backlog_store.size(work.connection, migration.source)
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
