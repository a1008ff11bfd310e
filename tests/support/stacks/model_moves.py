"""The steps of a move to another embedding model, and models with scripted behaviour."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest
from sqlalchemy import text

from chordwise.contract.migration import EmbeddingMigration
from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents.chunk_edit_store import ChunkEdits
from pipeline.errors import EmbedderRefused, MigrationRefused
from pipeline.maintenance import backfill, migrate_model
from pipeline.maintenance.repair_stores import _chunk
from pipeline.maintenance.verify import verify
from pipeline.models.live_spaces import Spaces
from pipeline.query.plan import Plan
from pipeline.query.request import Query
from pipeline.records import DocumentFields, EmbeddingSpace, QueryId
from pipeline.resources import Resources
from tests.support.corpora.queries import query_of
from tests.support.corpora.uploads import upload
from tests.support.stacks.connections import in_postgres
from tests.support.stacks.corner import Corner
from tests.support.stacks.embedders import use_embedder

NO_GATE = {"skip_gate": True}
ANIMALS = ["fox", "whale", "owl", "salmon", "horse", "beetle", "crane", "otter"]


def fill(corner: Corner, count: int = 20) -> None:
    corner.ingest(*(upload(f"d{n}", f"A {ANIMALS[n % 8]} was seen at place {n}. " * (1 + n % 3)) for n in range(count)))


def start(use: Resources, dimension: int = 128, **options: Any) -> int:
    options = {"provider": "local", "model": "wordllama-l2-supercat", "service": "default", **options}
    begun = migrate_model.start(dimension=dimension, use=use, **options)
    make_due(use)
    return begun.space.number


def make_due(use: Resources) -> None:
    """Let the next step, and what was put off, be due now."""
    with unit_of_work(use.mysql) as work:
        work.connection.execute(text("UPDATE embedding_spaces SET next_step_at = '2000-01-01', lease_until = NULL"))
        work.connection.execute(text("UPDATE embedding_backlog SET next_attempt_at = '2000-01-01'"))


def state(use: Resources, number: int) -> str:
    found = migrate_model.status(number, use)
    assert found is not None
    return found.state


def run(use: Resources, number: int, *, until: str = "ready") -> None:
    for _ in range(20):
        if state(use, number) == until:
            return
        make_due(use)
        backfill.step(use)
    raise AssertionError(f"still {state(use, number)}")


def frozen(use: Resources) -> Resources:
    """Those of a process that never asks where the pointer is, once it knows."""
    resources = Resources(use.settings)
    resources.__dict__["spaces"] = Spaces(use.settings, lambda: resources.mysql, clock=lambda: 0.0)
    resources.spaces.live()
    return resources


def both(use: Resources) -> tuple[EmbeddingSpace, EmbeddingSpace]:
    live = use.spaces.live(fresh=True)
    assert live.standby is not None
    return live.active, live.standby


def assert_same(corner: Corner, *spaces: EmbeddingSpace) -> None:
    """In each space there is one right vector for every shown chunk, and none beside them."""
    for space in spaces:
        report = verify(corner.tenant, None, corner.use, repair=False, space=space)
        assert (report.missing, report.orphaned, report.stale, report.misplaced) == (0, 0, 0, 0), space
        rows = in_postgres(corner.use, f"SELECT count(*), min(vector_dims(embedding)) FROM {space.table}")[0]
        assert rows[0] == sum(len(texts) for texts in corner.shown().values())
        assert rows[1] in (space.dimension, None)


def asked(corner: Corner, words: str, space: int | None = None) -> Query:
    return query_of(
        words,
        query_id=QueryId(str(uuid.uuid4())),
        tenant_id=corner.tenant,
        namespaces=(corner.namespace,),
        plan=Plan(top_k=5),
        created_at=0,
        deadline_s=0,
        embedding_space=space,
    )


class Model:
    """A model under another name with scripted behaviour, put in the place of a space's own."""

    def __init__(self, real: Any, *, refused: str = "", error: Exception | None = None) -> None:
        self.model, self.dimension, self._real, self._refused, self.error = (
            real.model,
            real.dimension,
            real,
            refused,
            error,
        )
        self.texts = 0

    def embed(self, texts: Any, **options: Any) -> Any:
        if self.error is not None:
            raise self.error
        guilty = {n: "not this text" for n, each in enumerate(texts) if self._refused and self._refused in each}
        if guilty:
            raise EmbedderRefused(reasons=guilty)
        self.texts += len(texts)
        return self._real.embed(texts, **options)

    def close(self) -> None:
        self._real.close()


def put_in(use: Resources, space: EmbeddingSpace, **behaviour: Any) -> Model:
    model = Model(use.spaces.embedder(space), **behaviour)
    use_embedder(use.spaces, space, model)
    return model


def replace_chunk(corner: Corner) -> tuple[Any, Any]:
    """A chunk that was not there, with the fields of its document."""
    with unit_of_work(corner.use.mysql) as work:
        [owned] = ChunkEdits(work.connection, corner.tenant).named(chunk_ids(corner, "d0")).values()
    return _chunk(owned), {owned.generation: DocumentFields()}


def status_of(use: Resources, number: int) -> EmbeddingMigration:
    found = migrate_model.status(number, use)
    assert found is not None
    return found


def assert_refused(use: Resources, number: int, code: str) -> None:
    with pytest.raises(MigrationRefused) as refused:
        migrate_model.switch(number, use)
    assert refused.value.code == code


def chunk_ids(corner: Corner, document: str) -> list[Any]:
    with unit_of_work(corner.use.mysql) as work:
        rows = work.connection.execute(
            text(
                "SELECT c.chunk_id FROM chunks c JOIN documents d ON d.tenant_id = c.tenant_id"
                " AND d.namespace = c.namespace AND d.document_id = c.document_id"
                " AND d.published_generation = c.generation"
                " WHERE c.tenant_id = :tenant AND c.document_id = :document ORDER BY c.ordinal"
            ),
            {"tenant": corner.tenant, "document": document},
        )
        return list(rows.scalars())


def until(condition: Any, *, seconds: float = 10) -> None:
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.02)


def die(*_: object) -> None:
    raise RuntimeError("killed")
