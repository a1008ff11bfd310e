"""Death in every moment, and every step twice.

Whatever changes a document is run once to count its moments, one before each statement and each commit of either store,
and then once more for each of them that changes anything, dying there. At that moment searches must see the old or the
new and nothing else; once what was begun has been begun again, both stores must be as if nobody had died.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from pipeline.errors import GenerationNotKept, LeaseLost
from pipeline.flows.chunk_edit import Edit, delete_chunks, edit_chunks
from pipeline.flows.claiming import take
from pipeline.flows.edit import delete_document
from pipeline.flows.embedding import embed
from pipeline.flows.intake import Batch, Ticket, accept
from pipeline.flows.preparing import prepare, write_aside
from pipeline.flows.resources import Resources
from pipeline.flows.rollback import roll_back
from pipeline.flows.showing import show
from pipeline.flows.spaces import Spaces
from pipeline.flows.upkeep import drop_retired, release_kept
from pipeline.flows.verify import verify
from pipeline.records import DocumentId, Namespace
from pipeline.stores.chunk_edits import ChunkEdits, OwnedChunk
from pipeline.stores.jobs import Ledger
from pipeline.stores.work import unit_of_work
from tests.conftest import make_tenant
from tests.integration.test_ingest_flow import Corner, _upload
from tests.support.dying import Died, Moments, watched

OLD, NEW = ["the old text"], ["the new text"]


@pytest.fixture(scope="module")
def use(use_alone: Resources) -> Resources:
    # The dead hold their batches until their leases end; here that must not keep others from working.
    boundless = Resources(use_alone.settings.model_copy(update={"ingest_tenant_batches": 0}))
    boundless.__dict__.update(
        mysql=use_alone.mysql, postgres=use_alone.postgres, redis=use_alone.redis, embedder=use_alone.embedder
    )
    # Which space is active is asked once a second; here a statement must not come or stay away with the time.
    boundless.__dict__["spaces"] = Spaces(use_alone.settings, lambda: use_alone.mysql, clock=lambda: 0.0)
    boundless.spaces.live()
    return boundless


class Story:
    """One change of one document: how it begins, what it does, how it is begun again, and what must be true."""

    passes: tuple[str, ...] = ()  # moments there must be, or the story has lost what it is about
    during: tuple[list[str] | None, ...] = (OLD, NEW)
    after: list[str] | None = NEW

    def __init__(self, corner: Corner, document_id: str) -> None:
        self.corner, self.document_id = corner, DocumentId(document_id)
        self.told: Moments = Moments()

    def begin(self) -> None:
        """What there is before."""
        self.corner.ingest(_upload(self.document_id, OLD[0]))

    def act(self) -> None:
        """What is watched."""
        raise NotImplementedError

    def again(self) -> None:
        """What whoever comes next does about it."""
        self.corner.make_due()
        self.act()

    @property
    def shown(self) -> list[str] | None:
        return self.corner.shown().get(self.document_id)

    def watch(self, *, die_at: int | None = None) -> list[str]:
        """Act, dying at that moment; gives the moments there were."""
        self.told = moments = Moments(die_at=die_at)
        with watched(self.corner.use.mysql, self.corner.use.postgres, moments):
            if die_at is None:
                self.act()
            else:
                with pytest.raises(Died):
                    self.act()
        self.told = Moments()
        return moments.names


class Accepting(Story):
    passes = (
        "mysql: INSERT INTO documents",
        "mysql: INSERT INTO payloads",
        "mysql: INSERT INTO job_items",
        "mysql: commit",
        "ring",
    )
    during = (OLD,)

    def act(self) -> None:
        batch = Batch(
            tenant_id=self.corner.tenant,
            namespace=self.corner.namespace,
            request_id="r",
            entries=[_upload(self.document_id, NEW[0])],
        )
        accept(batch, self.corner.use, ring=lambda ticket: self.told.pass_by("ring"))

    def again(self) -> None:
        """The sender, who got no answer, sends it again; what was accepted the first time is found by the sweeper."""
        self.act()
        work_on_open_jobs(self.corner)


class Ingesting(Story):
    passes = (
        "mysql: UPDATE job_items",  # claim, advance, succeed
        "mysql: SELECT generations",  # what is to be parsed
        "mysql: INSERT INTO chunks",
        "postgres: SELECT chunk_embeddings",  # vectors that can be reused, and the count
        "postgres: commit",  # of the vectors
        "mysql: UPDATE documents",  # the pointer
        "mysql: INSERT INTO retired_generations",
        "mysql: INSERT INTO kept_generations",
        "mysql: INSERT INTO term_statistics",
        "mysql: commit",
    )

    def begin(self) -> None:
        super().begin()
        self.ticket = self.corner.accept(_upload(self.document_id, NEW[0]))

    def act(self) -> None:
        self.corner.work(self.ticket)


class IngestingTheFirst(Ingesting):
    passes = ("mysql: INSERT INTO chunks", "postgres: commit", "mysql: UPDATE documents")
    during = (None, NEW)

    def begin(self) -> None:
        self.ticket = self.corner.accept(_upload(self.document_id, NEW[0]))


class IngestingTheSame(Ingesting):
    passes = ("mysql: UPDATE documents", "mysql: DELETE FROM payloads", "mysql: DELETE FROM generations")
    during = (OLD,)
    after = OLD

    def begin(self) -> None:
        self.corner.ingest(_upload(self.document_id, OLD[0]))
        self.ticket = self.corner.accept(_upload(self.document_id, OLD[0]))


class Rejecting(Ingesting):
    passes = ("mysql: INSERT INTO retired_generations", "mysql: UPDATE job_items")
    during = (OLD,)
    after = OLD

    def begin(self) -> None:
        self.corner.ingest(_upload(self.document_id, OLD[0]))
        self.ticket = self.corner.accept(_upload(self.document_id, " "))


class Deleting(Story):
    passes = (
        "mysql: UPDATE documents",
        "mysql: INSERT INTO term_statistics",
        "mysql: INSERT INTO retired_generations",
    )
    during = (OLD, None)
    after = None

    def act(self) -> None:
        delete_document(self.corner.tenant, self.corner.namespace, self.document_id, self.corner.use)


class EditingAChunk(Story):
    passes = ("postgres: commit", "mysql: UPDATE chunks", "mysql: INSERT INTO term_statistics", "mysql: commit")

    def act(self) -> None:
        [chunk] = owned(self.corner, self.document_id)
        edit_chunks(self.corner.tenant, [Edit(chunk_id=chunk.chunk_id, text=NEW[0])], self.corner.use)


class HidingAChunk(EditingAChunk):
    passes = ("mysql: UPDATE chunks", "postgres: DELETE FROM chunk_embeddings")
    during = (OLD,)
    after = OLD  # its row stays

    def act(self) -> None:
        [chunk] = owned(self.corner, self.document_id)
        edit_chunks(self.corner.tenant, [Edit(chunk_id=chunk.chunk_id, enabled=False)], self.corner.use)

    def again(self) -> None:
        super().again()
        verify(self.corner.tenant, [self.corner.namespace], self.corner.use, repair=True)
        [chunk] = owned(self.corner, self.document_id)
        assert not chunk.enabled
        edit_chunks(self.corner.tenant, [Edit(chunk_id=chunk.chunk_id, enabled=True)], self.corner.use)


class DeletingTheLastChunk(Story):
    passes = ("mysql: DELETE FROM chunks", "mysql: UPDATE documents", "postgres: DELETE FROM chunk_embeddings")
    during = (OLD, None)
    after = None

    def act(self) -> None:
        delete_chunks(
            self.corner.tenant, [each.chunk_id for each in owned(self.corner, self.document_id)], self.corner.use
        )


class RollingBack(Story):
    passes = ("mysql: INSERT INTO payloads", "mysql: INSERT INTO generations", "mysql: INSERT INTO job_items", "ring")
    during = (OLD,)

    def begin(self) -> None:
        for texts in (NEW, OLD):
            self.corner.ingest(_upload(self.document_id, texts[0]))

    def act(self) -> None:
        roll_back(
            self.corner.tenant,
            self.corner.namespace,
            self.document_id,
            self.corner.use,
            to=1,
            request_id="r",
            ring=lambda ticket: self.told.pass_by("ring"),
        )

    def again(self) -> None:
        """The sweeper finds what was accepted; where nothing was, its owner asks once more."""
        work_on_open_jobs(self.corner)
        if self.shown == OLD:
            self.act()
            work_on_open_jobs(self.corner)


class TenantStory(Story):
    """A story of a whole tenant: each telling has one of its own."""


class Dropping(TenantStory):
    passes = (
        "postgres: DELETE FROM chunk_embeddings",
        "mysql: DELETE FROM chunks",
        "mysql: DELETE FROM retired_generations",
        "mysql: DELETE FROM payloads",
    )
    during = (NEW,)

    def begin(self) -> None:
        for body in (OLD[0], " ", NEW[0]):
            self.corner.ingest(_upload(self.document_id, body))
        make_old(self.corner, "retired_generations", "due_at")

    def act(self) -> None:
        drop_retired(self.corner.tenant, self.corner.use)


class LettingGoOfWhatWasKept(Dropping):
    passes = (
        "mysql: DELETE FROM kept_generations",
        "mysql: INSERT INTO retired_generations",
        "mysql: DELETE FROM payloads",
    )

    def begin(self) -> None:
        super().begin()
        make_old(self.corner, "kept_generations", "kept_until")

    def act(self) -> None:
        release_kept(self.corner.tenant, self.corner.use)
        drop_retired(self.corner.tenant, self.corner.use)


class Mending(TenantStory):
    passes = ("postgres: commit", "postgres: DELETE FROM chunk_embeddings", "mysql: INSERT INTO term_statistics")
    during = (OLD,)
    after = OLD

    def begin(self) -> None:
        self.corner.ingest(_upload(self.document_id, OLD[0]), _upload("other", "another text"))
        values = {"tenant": self.corner.tenant, "document": self.document_id}
        with self.corner.use.postgres.begin() as connection:
            connection.execute(
                text("DELETE FROM chunk_embeddings WHERE tenant_id = :tenant AND document_id = :document"), values
            )
            connection.execute(
                text("UPDATE chunk_embeddings SET chunk_id = gen_random_uuid() WHERE tenant_id = :tenant"), values
            )
        with unit_of_work(self.corner.use.mysql) as work:
            work.connection.execute(
                text("UPDATE term_statistics SET chunk_count = chunk_count + 1 WHERE tenant_id = :tenant"), values
            )

    def act(self) -> None:
        verify(self.corner.tenant, [self.corner.namespace], self.corner.use, repair=True)


def fatal(names: list[str]) -> list[tuple[int, str]]:
    """The moments to die in: before a statement that only reads, all is as before the next one that does not."""
    return [(moment, name) for moment, name in enumerate(names) if ": SELECT" not in name]


def owned(corner: Corner, document_id: str) -> list[OwnedChunk]:
    with unit_of_work(corner.use.mysql) as work:
        return ChunkEdits(work.connection, corner.tenant).page(
            corner.namespace,
            document_id=DocumentId(document_id),
            enabled=None,
            order_by="document_id",
            after=None,
            limit=9,
        )


def work_on_open_jobs(corner: Corner) -> None:
    with unit_of_work(corner.use.mysql) as work:
        open_jobs = Ledger(work.connection, corner.tenant).unfinished()
    for job_id in open_jobs:
        corner.work(Ticket(tenant_id=corner.tenant, job_id=job_id, request_id="r", total=1, due=1))


def make_old(corner: Corner, table: str, column: str) -> None:
    with unit_of_work(corner.use.mysql) as work:
        work.connection.execute(
            text(f"UPDATE {table} SET {column} = '2000-01-01' WHERE tenant_id = :tenant"), {"tenant": corner.tenant}
        )


@pytest.mark.timeout(300)  # a hundred documents in some of them, on a machine that may be busy
class DescribeDeath:
    @pytest.mark.parametrize(
        "story",
        [
            Accepting,
            Ingesting,
            IngestingTheFirst,
            IngestingTheSame,
            Rejecting,
            Deleting,
            EditingAChunk,
            HidingAChunk,
            DeletingTheLastChunk,
            RollingBack,
        ],
    )
    def it_leaves_a_document_whole_in_every_moment_of(self, use, namespace, story):
        corner = Corner(use, make_tenant(use)[0], namespace)
        first = self._first(corner, story)
        tellings = []
        for moment, name in fatal(first):
            telling = story(corner, f"d{moment}")
            telling.begin()
            telling.watch(die_at=moment)
            assert telling.shown in story.during, f"dead before {name}"
            tellings.append((telling, name))
        for telling, name in tellings:
            telling.again()
            assert telling.shown == story.after, f"dead before {name}, and begun again"
        corner.make_due()
        corner.assert_clean()

    @pytest.mark.parametrize("story", [Dropping, LettingGoOfWhatWasKept, Mending])
    def it_leaves_a_tenant_whole_in_every_moment_of(self, use, namespace, story):
        first = self._first(Corner(use, make_tenant(use)[0], namespace), story)
        for moment, name in fatal(first):
            telling = story(Corner(use, make_tenant(use)[0], Namespace(f"{namespace}-{moment}")), "d")
            telling.begin()
            telling.watch(die_at=moment)
            assert telling.shown in story.during, f"dead before {name}"
            telling.again()
            assert telling.shown == story.after, f"dead before {name}, and begun again"
            telling.corner.assert_clean()

    @staticmethod
    def _first(corner: Corner, story: type[Story]) -> list[str]:
        telling = story(corner, "first")
        telling.begin()
        names = telling.watch()
        assert set(story.passes) <= set(names), names
        telling.again()
        return names


class DescribeTwice:
    """Each step of ingestion by itself, done again by the same worker, as after a message that came twice."""

    @pytest.fixture
    def corner(self, use, tenant, namespace) -> Corner:
        return Corner(use, tenant, namespace)

    @pytest.mark.parametrize("twice", ["claim", "prepare", "write_aside", "embed", "show", "drop"])
    def it_makes_no_difference_to(self, corner, use, twice):
        corner.ingest(_upload("a", OLD[0]), _upload("b", "stays"))
        ticket = corner.accept(_upload("a", NEW[0]), _upload("c", "comes"))

        def times(step: str, do: Callable[[], Any]) -> Any:
            done = do()
            return do() if twice == step else done

        claims = take(corner.tenant, ticket.job_id, use).items
        if twice == "claim":
            assert take(corner.tenant, ticket.job_id, use).items == ()
        prepared = times("prepare", lambda: prepare(corner.tenant, claims, use))
        chunks = [chunk for item in prepared for chunk in item.chunks]
        write_aside(corner.tenant, prepared, chunks, use)
        if twice == "write_aside":  # what a worker that found its batch spoiled does
            claims = [replace(claim, again=True) for claim in claims]
            prepared = prepare(corner.tenant, claims, use)
            write_aside(corner.tenant, prepared, [chunk for item in prepared for chunk in item.chunks], use)
        embedded = times("embed", lambda: embed(corner.tenant, prepared, use))
        show(corner.tenant, embedded, use)
        if twice == "show":
            with pytest.raises(LeaseLost):
                show(corner.tenant, embedded, use)
        make_old(corner, "retired_generations", "due_at")
        times("drop", lambda: drop_retired(corner.tenant, use))
        assert corner.shown() == {"a": NEW, "b": ["stays"], "c": ["comes"]}
        assert corner.job(ticket).outcomes == {"replaced": 1, "created": 1}
        corner.assert_clean()

    def it_makes_no_difference_to_deleting_editing_and_mending(self, corner, use):
        corner.ingest(_upload("a", OLD[0]), _upload("b", OLD[0]))
        [chunk] = owned(corner, "a")
        done = [edit_chunks(corner.tenant, [Edit(chunk_id=chunk.chunk_id, text=NEW[0])], use)[0] for _ in range(2)]
        assert [each.status for each in done] == ["updated", "unchanged"]
        gone = [delete_document(corner.tenant, corner.namespace, DocumentId("b"), use) for _ in range(2)]
        assert gone == [True, False]
        with use.postgres.begin() as connection:
            connection.execute(
                text("DELETE FROM chunk_embeddings WHERE tenant_id = :tenant AND document_id = 'a'"),
                {"tenant": corner.tenant},
            )
        mended = [verify(corner.tenant, [corner.namespace], use, repair=True).repaired for _ in range(2)]
        assert mended == [1, 0]
        corner.assert_clean()

    def it_accepts_the_same_upload_twice_and_works_on_it_once(self, corner):
        first, second = (corner.accept(_upload("a", NEW[0])) for _ in range(2))
        corner.work(first)
        corner.work(second)
        assert [corner.job(each).outcomes for each in (first, second)] == [{"created": 1}, {"unchanged": 1}]
        corner.assert_clean()

    def it_undoes_a_rollback_by_another_and_finds_nothing_behind_the_first_upload(self, corner, use):
        for texts in (OLD, NEW):
            corner.ingest(_upload("a", texts[0]))
        for expected in (OLD, NEW):
            ticket = roll_back(
                corner.tenant, corner.namespace, DocumentId("a"), use, request_id="r", ring=lambda ticket: None
            )
            corner.work(ticket)
            assert corner.shown() == {"a": expected}
        with pytest.raises(GenerationNotKept):
            roll_back(
                corner.tenant, corner.namespace, DocumentId("a"), use, to=1, request_id="r", ring=lambda ticket: None
            )
        corner.assert_clean()
