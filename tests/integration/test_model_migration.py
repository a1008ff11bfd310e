"""An installation moves to another embedding model while it is searched and filled: no query fails, none is mixed."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text

from pipeline.channels.semantic import SemanticChannel
from pipeline.core.agreement import Gate
from pipeline.core.plan import Plan
from pipeline.core.query import Query
from pipeline.errors import EmbedderRefused, EmbedderUnavailable, MigrationRefused, Misconfigured, StoreUnavailable
from pipeline.flows import backfill, migrating
from pipeline.flows.chunk_edit import Edit, delete_chunks, edit_chunks
from pipeline.flows.edit import delete_document
from pipeline.flows.golden import GoldenQuery, compare_models
from pipeline.flows.resources import Resources
from pipeline.flows.spaces import Spaces
from pipeline.flows.verify import verify
from pipeline.records import DocumentId, EmbeddingSpace, Namespace, QueryId
from pipeline.stores import spaces as registry
from pipeline.stores.migrate import check, downgrade, upgrade
from pipeline.stores.work import unit_of_work
from tests.conftest import make_tenant, scratch_databases
from tests.integration.test_ingest_flow import Corner, _upload

NO_GATE = {"skip_gate": True}
ANIMALS = ["fox", "whale", "owl", "salmon", "horse", "beetle", "crane", "otter"]


@pytest.fixture
def use(settings) -> Iterator[Resources]:
    """Databases of the test's own: a migration is the whole installation's."""
    with scratch_databases(settings) as moved:
        resources = Resources(moved)
        upgrade(resources.mysql, resources.postgres, moved)
        yield resources
        resources.close()


@pytest.fixture
def corner(use) -> Corner:
    return Corner(use, make_tenant(use)[0], Namespace(f"ns-{uuid.uuid4().hex[:8]}"))


def fill(corner: Corner, count: int = 20) -> None:
    corner.ingest(
        *(_upload(f"d{n}", f"A {ANIMALS[n % 8]} was seen at place {n}. " * (1 + n % 3)) for n in range(count))
    )


def start(use: Resources, dimension: int = 128, **options: Any) -> int:
    options = {"provider": "local", "model": "wordllama-l2-supercat", "service": "default", **options}
    begun = migrating.start(dimension=dimension, use=use, **options)
    make_due(use)
    return begun.space.number


def make_due(use: Resources) -> None:
    """Let the next step, and what was put off, be due now."""
    with unit_of_work(use.mysql) as work:
        work.connection.execute(text("UPDATE embedding_spaces SET next_step_at = '2000-01-01', lease_until = NULL"))
        work.connection.execute(text("UPDATE embedding_backlog SET next_attempt_at = '2000-01-01'"))


def state(use: Resources, number: int) -> str:
    found = migrating.status(number, use)
    assert found is not None
    return found.migration.state


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
        with corner.use.postgres.connect() as connection:
            rows = connection.execute(text(f"SELECT count(*), min(vector_dims(embedding)) FROM {space.table}")).one()
        assert rows[0] == sum(len(texts) for texts in corner.shown().values())
        assert rows[1] in (space.dimension, None)


def asked(corner: Corner, words: str, space: int | None = None) -> Query:
    return Query(
        query_id=QueryId(str(uuid.uuid4())),
        tenant_id=corner.tenant,
        request_id="r",
        query_text=words,
        namespaces=(corner.namespace,),
        plan=Plan(top_k=5),
        created_at=0,
        deadline_at=0,
        embedding_space=space,
    )


class Model:
    """A model under another name, which does as it is told; put into the place of a space's own."""

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
        guilty = tuple(n for n, each in enumerate(texts) if self._refused and self._refused in each)
        if guilty:
            raise EmbedderRefused("not this text", indexes=guilty)
        self.texts += len(texts)
        return self._real.embed(texts, **options)

    def close(self) -> None:
        self._real.close()


def put_in(use: Resources, space: EmbeddingSpace, **behaviour: Any) -> Model:
    model = Model(use.spaces.embedder(space), **behaviour)
    use.spaces.use_embedder(space, model)
    return model


class DescribeAMove:
    def it_fills_proves_switches_goes_back_and_ends(self, corner, use):
        fill(corner)
        number = start(use)
        old, new = both(use)
        assert (old.dimension, new.dimension, new.table) == (256, 128, f"chunk_embeddings_{number}")
        run(use, number)
        assert_same(corner, old, new)
        migrating.switch(number, use, **NO_GATE)
        assert use.embedder.dimension == 128
        assert both(use) == (new, old)
        corner.assert_clean()
        assert migrating.rollback(number, use) == 0
        assert both(use) == (old, new)
        migrating.switch(number, use, **NO_GATE)
        migrating.finish(number, use)
        run(use, number, until="finished")
        assert use.spaces.live(fresh=True).standby is None
        corner.ingest(_upload("later", "a text of later"))
        corner.assert_clean()
        assert_same(corner, new)
        with use.postgres.connect() as connection:
            assert connection.execute(text("SELECT to_regclass('chunk_embeddings')")).scalar_one() is None
        check(use.mysql, use.postgres, use.settings)  # a restart with the settings of before
        again = start(use, 64)
        run(use, again)
        assert again == number + 1
        assert_same(corner, *both(use))

    def it_keeps_both_spaces_right_whatever_is_done_meanwhile(self, corner, use):
        fill(corner)
        number = start(use)
        fill_first_page = backfill.step(use)
        assert fill_first_page
        corner.ingest(_upload("new", "brand new"), _upload("d1", "replaced " * 900))
        delete_document(corner.tenant, corner.namespace, DocumentId("d2"), use)
        chunks = _chunk_ids(corner, "d3") + _chunk_ids(corner, "d4") + _chunk_ids(corner, "d5")
        edit_chunks(
            corner.tenant, [Edit(chunk_id=chunks[0], text="edited"), Edit(chunk_id=chunks[1], enabled=False)], use
        )
        delete_chunks(corner.tenant, [chunks[2]], use)
        run(use, number)
        for switched in (False, True):
            if switched:
                migrating.switch(number, use, **NO_GATE)
            suffix = "after" if switched else "before"
            corner.ingest(_upload(f"later {suffix}", "later"), _upload("d6", f"replaced {suffix} " * 900))
            edit_chunks(corner.tenant, [Edit(chunk_id=chunks[0], text=f"edited {suffix}")], use)
            edit_chunks(corner.tenant, [Edit(chunk_id=chunks[1], enabled=switched)], use)
            delete_document(corner.tenant, corner.namespace, DocumentId("d7" if switched else "d8"), use)
            for space in both(use):
                report = verify(corner.tenant, None, use, repair=False, space=space)
                assert (report.missing, report.orphaned, report.stale) == (0, 0, 0)
        edit_chunks(corner.tenant, [Edit(chunk_id=chunks[1], enabled=True)], use)
        corner.assert_clean()
        assert_same(corner, *both(use))
        assert migrating.rollback(number, use) == 0
        corner.assert_clean()

    def it_can_be_given_up(self, corner, use):
        fill(corner, 4)
        number = start(use)
        backfill.step(use)
        _, new = both(use)
        migrating.abort(number, use)
        backfill.step(use)
        assert state(use, number) == "aborting"  # not before queries that know it have ended
        run(use, number, until="aborted")
        with use.postgres.connect() as connection:
            assert connection.execute(text("SELECT to_regclass(:t)"), {"t": new.table}).scalar_one() is None
        stale = corner.accept(_upload("d1", "replaced"))
        corner.work(stale)  # perhaps by a process that did not notice yet: then it is put back
        use.spaces.live(fresh=True)
        corner.make_due()
        corner.work(stale)
        assert corner.job(stale).status == "succeeded"
        corner.assert_clean()
        assert start(use) == number + 1

    def it_is_made_again_after_it_in_a_new_postgresql(self, corner, use):
        fill(corner, 4)
        number = start(use)
        run(use, number)
        migrating.switch(number, use, **NO_GATE)
        migrating.finish(number, use)
        run(use, number, until="finished")
        with use.postgres.begin() as connection:
            connection.execute(
                text(
                    f"DROP TABLE chunk_embeddings_{number}, document_embeddings, vector_indexes, schema_version_postgres"
                )
            )
        with pytest.raises(Misconfigured):
            check(use.mysql, use.postgres, use.settings)
        upgrade(use.mysql, use.postgres, use.settings)
        check(use.mysql, use.postgres, use.settings)
        use.spaces.live(fresh=True)
        assert verify(corner.tenant, None, use, repair=True).missing == 4
        corner.assert_clean()

    def it_leaves_one_table_when_the_schema_is_taken_back(self, corner, use):
        start(use)
        downgrade(use.mysql, use.postgres, use.settings)
        upgrade(use.mysql, use.postgres, use.settings)
        check(use.mysql, use.postgres, use.settings)


class DescribeQueries:
    def it_answers_every_one_from_one_space(self, corner, use):
        """Queries run on while the move fills, switches, goes back and switches again."""
        fill(corner, 40)
        reader = Resources(use.settings, timeout_s=2.0, reading=True)
        channel = SemanticChannel(reader.searched)
        seen: set[int] = set()
        problems: list[object] = []
        done = threading.Event()

        def ask(part: int) -> None:
            turn = part
            while not done.is_set():
                turn += 1
                pinned = reader.spaces.live().active.number
                query = asked(corner, f"Where was the {ANIMALS[turn % 8]}?", pinned)
                try:
                    found = channel.recall(query)
                    scores = channel.score(query, found.chunk_ids)
                    # The same vectors again: had the query's vector met another model's, these could not agree.
                    if not found.chunk_ids or not np.allclose([scores[c] for c in found.chunk_ids], found.scores):
                        problems.append((query.query_text, found, scores))
                    if found.scores[0] < 0.3:
                        problems.append((query.query_text, found.scores))
                    seen.add(pinned)
                except Exception as error:
                    problems.append(error)

        threads = [threading.Thread(target=ask, args=(part,)) for part in range(2)]
        for thread in threads:
            thread.start()
        try:
            number = start(use)
            run(use, number)
            for _ in range(2):
                migrating.switch(number, use, **NO_GATE)
                corner.ingest(_upload("d1", f"replaced {uuid.uuid4()}"))
                _until(lambda: number in seen)
                migrating.rollback(number, use)
                seen.clear()
                _until(lambda: 1 in seen)
            migrating.switch(number, use, **NO_GATE)
            hasty = Resources(use.settings.model_copy(update={"retired_grace_s": 1.5}))
            migrating.finish(number, hasty)
            _until(lambda: backfill.step(hasty) or state(use, number) == "finished")
            hasty.close()
            seen.clear()
            _until(lambda: number in seen)
        finally:
            done.set()
            for thread in threads:
                thread.join()
            reader.close()
        assert problems == []
        corner.assert_clean()

    def it_stays_with_the_space_it_began_in(self, corner, use):
        fill(corner, 4)
        number = start(use)
        run(use, number)
        channel = SemanticChannel(use.searched)
        before = channel.recall(asked(corner, "the owl", 1))
        migrating.switch(number, use, **NO_GATE)
        assert channel.recall(asked(corner, "the owl", 1)) == before
        assert channel.recall(asked(corner, "the owl", number)).scores != before.scores
        assert channel.recall(asked(corner, "the owl")) == channel.recall(asked(corner, "the owl", number))
        assert channel.recall(asked(corner, "the owl", 99)) == channel.recall(asked(corner, "the owl", number))

    def it_finds_out_within_a_second(self, corner, use):
        other = Resources(use.settings)
        fill(corner, 1)
        number = start(use)
        run(use, number)
        assert other.spaces.live().active.number == 1
        migrating.switch(number, use, **NO_GATE)
        _until(lambda: other.spaces.live().active.number == number, seconds=2)
        other.close()

    def it_goes_on_with_what_it_knew_while_mysql_is_away(self, corner, use):
        clock = [0.0]
        engines = [use.mysql]

        def engine():
            if not engines:
                raise StoreUnavailable("MySQL: away")
            return engines[0]

        known = Spaces(use.settings, engine, clock=lambda: clock[0])
        before = known.live()
        engines.clear()
        clock[0] = 100.0
        assert known.live() == before
        with pytest.raises(StoreUnavailable):
            Spaces(use.settings, engine).live()


class DescribeDying:
    @pytest.mark.parametrize("die_at", range(1, 9))
    def it_goes_on_wherever_it_was_killed(self, corner, use, die_at, monkeypatch):
        """A step is killed at its n-th call of the model or of the vector store, with its lease held."""
        monkeypatch.setattr(backfill, "PAGE_CHUNKS", 3)
        fill(corner, 12)
        number = start(use)
        _, new = both(use)
        calls = 0

        class Killed(BaseException):
            """As if the process were gone."""

        class Mortal(Resources):
            def vectors_in(self, space, tenant_id):
                real = super().vectors_in(space, tenant_id)
                upsert = real.upsert

                def dying(*arguments: Any, **options: Any) -> None:
                    nonlocal calls
                    calls += 1
                    if calls == die_at:
                        raise Killed
                    upsert(*arguments, **options)
                    calls += 1
                    if calls == die_at:
                        raise Killed

                real.upsert = dying
                return real

        mortal = Mortal(use.settings)
        with pytest.raises(Killed):
            backfill.step(mortal)
        mortal.close()
        assert backfill.step(use) == 0  # the lease of the dead one still runs
        run(use, number)
        assert_same(corner, *both(use))
        assert new in both(use)

    def it_does_no_harm_run_twice_at_once(self, corner, use):
        fill(corner, 30)
        number = start(use)
        second = Resources(use.settings)

        def impatient() -> None:
            make_due(second)
            backfill.step(second)

        threads = [threading.Thread(target=impatient) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        second.close()
        run(use, number)
        assert_same(corner, *both(use))

    def it_begins_again_after_dying_between_the_two_stores(self, corner, use, monkeypatch):
        monkeypatch.setattr(registry, "point", _die)
        with pytest.raises(RuntimeError):
            start(use)
        monkeypatch.undo()
        assert use.spaces.live(fresh=True).standby is None
        number = start(use)
        run(use, number)


class DescribeAModelThatFails:
    def it_does_not_hold_up_ingestion_and_is_caught_up_with(self, corner, use):
        fill(corner, 4)
        number = start(use)
        run(use, number)
        _, new = both(use)
        model = put_in(use, new, error=EmbedderUnavailable("away"))
        assert corner.ingest(_upload("d1", "replaced"), _upload("later", "later")).status == "succeeded"
        [chunk] = _chunk_ids(corner, "d3")
        assert edit_chunks(corner.tenant, [Edit(chunk_id=chunk, text="edited")], use)[0].status == "updated"
        found = migrating.status(number, use)
        assert found is not None
        assert found.behind == 3
        with pytest.raises(MigrationRefused) as refused:
            migrating.switch(number, use, **NO_GATE)
        assert refused.value.code == "vectors_behind"
        make_due(use)
        backfill.step(use)
        assert _status(use, number).migration.error_code == "embedder_unavailable"
        model.error = None
        make_due(use)
        backfill.step(use)
        found = _status(use, number)
        assert (found.behind, found.migration.error_code) == (0, None)
        migrating.switch(number, use, **NO_GATE)
        corner.assert_clean()
        assert_same(corner, *both(use))

    def it_is_told_which_chunks_it_refuses(self, corner, use):
        fill(corner, 6)
        corner.ingest(_upload("bad", "forbidden words"))
        number = start(use)
        _, new = both(use)
        put_in(use, new, refused="forbidden")
        run(use, number)
        assert _status(use, number).migration.missing == 1
        with pytest.raises(MigrationRefused) as refused:
            migrating.switch(number, use, **NO_GATE)
        assert refused.value.code == "vectors_missing"
        migrating.switch(number, use, skip_gate=True, accept_missing=True)

    def it_may_be_the_old_one_after_the_switch(self, corner, use):
        fill(corner, 4)
        number = start(use)
        run(use, number)
        old, _ = both(use)
        migrating.switch(number, use, **NO_GATE)
        model = put_in(use, old, error=EmbedderUnavailable("gone"))
        corner.ingest(_upload("d1", "replaced"))
        corner.assert_clean()
        assert migrating.rollback(number, use) == 1
        model.error = None
        migrating.switch(number, use, **NO_GATE)
        make_due(use)
        backfill.step(use)
        assert migrating.rollback(number, use) == 0
        corner.assert_clean()


class DescribeRaces:
    def it_shows_nothing_that_the_switch_would_lose(self, corner, use):
        """A worker that does not know of the standby yet, or takes it for the active one, leaves nothing behind."""
        stale = frozen(use)
        number = start(use)
        run(use, number)
        assert stale.spaces.live().standby is None
        corner.work(corner.accept(_upload("a", "by one that knows of no standby")), stale)
        assert _status(use, number).behind == 1
        make_due(use)
        backfill.step(use)
        assert_same(corner, *both(use))
        migrating.switch(number, use, **NO_GATE)
        assert stale.spaces.live().active.number == 1
        corner.work(corner.accept(_upload("b", "by one that takes the old one for active")), stale)
        assert_same(corner, *both(use))
        assert len(corner.shown()) == 2
        stale.close()

    def it_tries_again_what_only_the_old_model_has_seen(self, corner, use):
        """The new model failed while a document was embedded, and was switched to before the document was shown."""
        number = start(use)
        run(use, number)
        stale = frozen(use)
        assert stale.spaces.live().standby is not None
        put_in(stale, both(use)[1], error=EmbedderUnavailable("away"))
        migrating.switch(number, use, **NO_GATE)
        ticket = corner.accept(_upload("a", "text"))
        corner.work(ticket, stale)
        assert corner.shown() == {}
        corner.make_due()
        corner.work(ticket)
        corner.assert_clean()
        assert_same(corner, *both(use))
        assert len(corner.shown()) == 1
        stale.close()

    def it_never_writes_a_vector_into_the_space_of_another_model(self, corner, use):
        """An embedder taken before a switch to a model of the same length, used after it."""
        fill(corner, 2)
        embedder = use.embedder
        number = start(use)
        run(use, number)
        migrating.switch(number, use, **NO_GATE)
        vectors = use.vectors(corner.tenant)
        assert vectors.spaces.active.number == number
        chunk = replace_chunk(corner)
        vectors.upsert([chunk[0]], embedder.embed(["x"]), fields=chunk[1], model=embedder.model)
        with use.postgres.connect() as connection:
            models = set(connection.execute(text(f"SELECT model FROM {vectors.spaces.active.table}")).scalars())
        assert models == {vectors.spaces.active.model}


class DescribeTheGate:
    def it_keeps_a_worse_model_out(self, corner, use):
        fill(corner, 16)
        number = start(use)
        with pytest.raises(MigrationRefused):
            compare_models(number, [], Gate(), use, sample=5)
        run(use, number)
        _assert_refused(use, number, "not_compared")
        golden = [
            GoldenQuery(
                tenant_id=corner.tenant,
                namespaces=(corner.namespace,),
                text=f"{animal} place {n}",
                grades={f"d{n}": 1},
            )
            for n, animal in enumerate(ANIMALS)
        ]
        good = compare_models(number, golden, Gate(max_ndcg_loss=1.0), use, sample=0)
        assert (good.queries, good.judged, good.passed) == (8, 8, True)
        assert good.ndcg_active > 0.5
        assert _status(use, number).migration.comparison["ndcg_active"] == pytest.approx(good.ndcg_active)
        put_in(use, both(use)[1])
        scrambled = use.spaces.embedder(both(use)[1])
        real = scrambled.embed
        scrambled.embed = lambda texts, **options: real([each[::-1] for each in texts], **options)
        bad = compare_models(number, golden, Gate(max_ndcg_loss=0.02), use, sample=0)
        assert not bad.passed
        _assert_refused(use, number, "gate_not_passed")
        scrambled.embed = real
        assert compare_models(
            number, [replace(each, grades=None) for each in golden], Gate(min_overlap=0.1), use, sample=0
        )
        migrating.switch(number, use)

    def it_takes_queries_from_the_texts_when_nobody_gives_any(self, corner, use):
        fill(corner, 16)
        number = start(use)
        run(use, number)
        verdict = compare_models(number, [], Gate(min_overlap=0.1), use, sample=6)
        assert verdict.queries >= 6
        assert verdict.passed
        assert 0 < verdict.overlap <= 1


class DescribeRefusals:
    def it_runs_one_at_a_time_and_knows_a_repeated_request(self, corner, use):
        number = start(use)
        assert start(use) == number
        with pytest.raises(MigrationRefused) as refused:
            start(use, 64)
        assert refused.value.code == "migration_open"
        for steer in (migrating.switch, migrating.rollback, migrating.finish):
            with pytest.raises(MigrationRefused):
                steer(number, use)
        with pytest.raises(MigrationRefused) as refused:
            migrating.abort(99, use)
        assert refused.value.code == "migration_not_found"

    def it_does_not_move_to_where_it_is(self, use):
        with pytest.raises(MigrationRefused) as refused:
            start(use, 256)
        assert refused.value.code == "same_model"
        with pytest.raises(MigrationRefused) as refused:
            start(use, 128, service="next")
        assert refused.value.code == "service_not_set"


def replace_chunk(corner: Corner) -> tuple[Any, Any]:
    """A chunk that was not there, with the fields of its document."""
    from pipeline.records import DocumentFields
    from pipeline.stores.chunk_edits import ChunkEdits

    with unit_of_work(corner.use.mysql) as work:
        [owned] = ChunkEdits(work.connection, corner.tenant).named(_chunk_ids(corner, "d0")).values()
    from pipeline.flows.mend import _chunk

    return _chunk(owned), {owned.generation: DocumentFields()}


def _status(use: Resources, number: int) -> migrating.Status:
    found = migrating.status(number, use)
    assert found is not None
    return found


def _assert_refused(use: Resources, number: int, code: str) -> None:
    with pytest.raises(MigrationRefused) as refused:
        migrating.switch(number, use)
    assert refused.value.code == code


def _chunk_ids(corner: Corner, document: str) -> list[Any]:
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


def _until(condition: Any, *, seconds: float = 10) -> None:
    import time

    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.02)


def _die(*_: object) -> None:
    raise RuntimeError("killed")
