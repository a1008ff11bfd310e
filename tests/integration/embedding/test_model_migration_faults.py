"""The move to another embedding model when processes die, models fail and others write at the same time."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import text

from pipeline.administration.edit_chunks import Edit, edit_chunks
from pipeline.database.engines import Conflict
from pipeline.embedding import space_store as registry
from pipeline.errors import EmbedderUnavailable, MigrationRefused
from pipeline.maintenance import backfill, migrate_model
from pipeline.resources import Resources
from tests.support.corpora.uploads import upload
from tests.support.stacks.model_moves import (
    NO_GATE,
    assert_same,
    both,
    chunk_ids,
    die,
    fill,
    frozen,
    make_due,
    put_in,
    replace_chunk,
    run,
    start,
    status_of,
)


class Killed(BaseException):
    """As if the process were gone."""


def mortal_resources(use: Resources, die_at: int) -> Resources:
    """Connections of a process that is killed before, or after, one of its calls of the vector store."""
    calls = 0

    def call() -> None:
        nonlocal calls
        calls += 1
        if calls == die_at:
            raise Killed

    class Mortal(Resources):
        def vectors_in(self, space, tenant_id):
            real = super().vectors_in(space, tenant_id)
            upsert = real.upsert

            def dying(*arguments: Any, **options: Any) -> None:
                call()
                upsert(*arguments, **options)
                call()

            real.upsert = dying
            return real

    return Mortal(use.settings)


@pytest.mark.thorough
class DescribeDying:
    @pytest.mark.parametrize(
        "moments",
        [(1, 2, 8), pytest.param(tuple(range(3, 8)), marks=pytest.mark.thorough)],
        ids=["at both ends", "in the middle"],
    )
    def it_goes_on_wherever_it_was_killed(self, corner, use, monkeypatch, moments):
        """A step is killed before and after each call of the vector store, with its lease held; one move after another."""
        monkeypatch.setattr(backfill, "PAGE_CHUNKS", 3)
        fill(corner, 12)
        for die_at in moments:
            number = start(use)
            old, new = both(use)
            mortal = mortal_resources(use, die_at)
            with pytest.raises(Killed):
                backfill.step(mortal)
            mortal.close()
            assert backfill.step(use) == 0  # the lease of the dead one still runs
            run(use, number)
            assert both(use) == (old, new)
            assert_same(corner, old, new)
            migrate_model.abort(number, use)
            run(use, number, until="aborted")

    def it_does_no_harm_run_twice_at_once(self, corner, use):
        fill(corner, 30)
        number = start(use)
        second = Resources(use.settings)

        def impatient() -> None:
            # Several touch the row at once, and one of them may have to give way; its task is then sent again.
            with suppress(Conflict):
                make_due(second)
            with suppress(Conflict):
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
        monkeypatch.setattr(registry, "point", die)
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
        assert corner.ingest(upload("d1", "replaced"), upload("later", "later")).status == "succeeded"
        [chunk] = chunk_ids(corner, "d3")
        assert edit_chunks(corner.tenant, [Edit(chunk_id=chunk, text="edited")], use)[0].status == "updated"
        found = migrate_model.status(number, use)
        assert found is not None
        assert found.behind == 3
        with pytest.raises(MigrationRefused) as refused:
            migrate_model.switch(number, use, **NO_GATE)
        assert refused.value.code == "vectors_behind"
        make_due(use)
        backfill.step(use)
        assert status_of(use, number).error_code == "embedder_unavailable"
        model.error = None
        make_due(use)
        backfill.step(use)
        found = status_of(use, number)
        assert (found.behind, found.error_code) == (0, None)
        migrate_model.switch(number, use, **NO_GATE)
        corner.assert_clean()
        assert_same(corner, *both(use))

    @pytest.mark.thorough
    def it_is_told_which_chunks_it_refuses(self, corner, use):
        fill(corner, 6)
        corner.ingest(upload("bad", "forbidden words"))
        number = start(use)
        _, new = both(use)
        put_in(use, new, refused="forbidden")
        run(use, number)
        assert status_of(use, number).missing == 1
        with pytest.raises(MigrationRefused) as refused:
            migrate_model.switch(number, use, **NO_GATE)
        assert refused.value.code == "vectors_missing"
        migrate_model.switch(number, use, skip_gate=True, accept_missing=True)

    @pytest.mark.thorough
    def it_may_be_the_old_one_after_the_switch(self, corner, use):
        fill(corner, 4)
        number = start(use)
        run(use, number)
        old, _ = both(use)
        migrate_model.switch(number, use, **NO_GATE)
        model = put_in(use, old, error=EmbedderUnavailable("gone"))
        corner.ingest(upload("d1", "replaced"))
        corner.assert_clean()
        assert migrate_model.rollback(number, use) == 1
        model.error = None
        migrate_model.switch(number, use, **NO_GATE)
        make_due(use)
        backfill.step(use)
        assert migrate_model.rollback(number, use) == 0
        corner.assert_clean()


class DescribeRaces:
    def it_shows_nothing_that_the_switch_would_lose(self, corner, use):
        """A worker that does not know of the standby yet, or takes it for the active one, leaves nothing behind."""
        stale = frozen(use)
        number = start(use)
        run(use, number)
        assert stale.spaces.live().standby is None
        corner.work(corner.accept(upload("a", "by one that knows of no standby")), stale)
        assert status_of(use, number).behind == 1
        make_due(use)
        backfill.step(use)
        assert_same(corner, *both(use))
        migrate_model.switch(number, use, **NO_GATE)
        assert stale.spaces.live().active.number == 1
        corner.work(corner.accept(upload("b", "by one that takes the old one for active")), stale)
        assert_same(corner, *both(use))
        assert len(corner.shown()) == 2
        stale.close()

    @pytest.mark.thorough
    def it_tries_again_what_only_the_old_model_has_seen(self, corner, use):
        """The new model failed while a document was embedded, and was switched to before the document was shown."""
        number = start(use)
        run(use, number)
        stale = frozen(use)
        assert stale.spaces.live().standby is not None
        put_in(stale, both(use)[1], error=EmbedderUnavailable("away"))
        migrate_model.switch(number, use, **NO_GATE)
        ticket = corner.accept(upload("a", "text"))
        corner.work(ticket, stale)
        assert corner.shown() == {}
        corner.make_due()
        corner.work(ticket)
        corner.assert_clean()
        assert_same(corner, *both(use))
        assert len(corner.shown()) == 1
        stale.close()

    @pytest.mark.thorough
    def it_never_writes_a_vector_into_the_space_of_another_model(self, corner, use):
        """An embedder taken before a switch to a model of the same length, used after it."""
        fill(corner, 2)
        embedder = use.embedder
        number = start(use)
        run(use, number)
        migrate_model.switch(number, use, **NO_GATE)
        vectors = use.vectors(corner.tenant)
        assert vectors.spaces.active.number == number
        chunk = replace_chunk(corner)
        vectors.upsert([chunk[0]], embedder.embed(["x"]), fields=chunk[1], model=embedder.model)
        with use.postgres.connect() as connection:
            models = set(connection.execute(text(f"SELECT model FROM {vectors.spaces.active.table}")).scalars())
        assert models == {vectors.spaces.active.model}
