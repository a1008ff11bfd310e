"""Death in every moment, and every step twice.

Each change of a document runs once to count its moments, one before each statement and each commit of either store, and
then once more for each moment after which the stores differ, dying there. At that moment searches must see the old or the
new and nothing else; once the change has been resumed, both stores must be as if nobody had died.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pipeline.administration.delete_documents import delete_document
from pipeline.administration.drop_replaced import drop_retired
from pipeline.administration.edit_chunks import Edit, edit_chunks
from pipeline.errors import GenerationNotKept, LeaseLost
from pipeline.ingestion.claimed_items import Lease
from pipeline.ingestion.prepare import prepare, write_unpublished
from pipeline.ingestion.reingest import roll_back
from pipeline.ingestion.run import embed, publish, take
from pipeline.ingestion.yield_turn import Turn
from pipeline.maintenance.verify import verify
from pipeline.models.live_spaces import Spaces
from pipeline.records import DocumentId, IngestQueue, Namespace
from pipeline.resources import Resources
from tests.conftest import make_tenant
from tests.support.corpora.uploads import upload
from tests.support.stacks.connections import in_postgres, sharing
from tests.support.stacks.corner import Corner
from tests.support.stacks.stories import (
    NEW,
    OLD,
    Accepting,
    Deleting,
    DeletingTheLastChunk,
    Dropping,
    EditingAChunk,
    HidingAChunk,
    Ingesting,
    IngestingTheFirst,
    IngestingTheSame,
    LettingGoOfWhatWasKept,
    Mending,
    MovingToTheQueueOfLongDocuments,
    Rejecting,
    RollingBack,
    Story,
    make_old,
    owned,
)


@pytest.fixture(scope="module")
def use(use_alone: Resources) -> Resources:
    # The dead hold their batches until their leases end; here that must not keep others from working.
    # Which space is active is asked once a second; here a statement must not come or stay away with the time.
    spaces = Spaces(use_alone.settings, lambda: use_alone.mysql, clock=lambda: 0.0)
    boundless = sharing(use_alone, ingest_tenant_batches=0, spaces=spaces)
    boundless.spaces.live()
    return boundless


def fatal(names: list[str]) -> list[tuple[int, str]]:
    """The moments to die in: before each message and each commit of what has changed.

    A store takes back what was not committed, so that a death before any statement of a transaction leaves what one
    before its commit leaves. `Ingesting`, which passes most kinds of transaction, may die before each statement as well.
    """
    moments, changed = [], False
    for moment, name in enumerate(names):
        if name == "notify" or (name == "mysql: commit" and changed) or name == "postgres: commit":  # COPY is not seen
            moments.append((moment, name))
        if name.startswith("mysql:"):
            changed = name != "mysql: commit" and (changed or ": SELECT" not in name)
    return moments


def fatal_within(names: list[str]) -> list[tuple[int, str]]:
    """Before every statement too: where it only reads, all is as before the next one that does not."""
    return [(moment, name) for moment, name in enumerate(names) if ": SELECT" not in name]


@pytest.mark.timeout(300)  # a hundred documents in some of them, on a machine that may be busy
class DescribeDeath:
    @pytest.mark.parametrize(
        ("story", "moments_of"),
        [
            (Accepting, fatal),
            (Ingesting, fatal),
            pytest.param(Ingesting, fatal_within, marks=pytest.mark.thorough),
            pytest.param(IngestingTheFirst, fatal, marks=pytest.mark.thorough),
            pytest.param(IngestingTheSame, fatal, marks=pytest.mark.thorough),
            (Deleting, fatal),
            (EditingAChunk, fatal),
            *(
                pytest.param(story, fatal, marks=pytest.mark.thorough)
                for story in (
                    MovingToTheQueueOfLongDocuments,
                    Rejecting,
                    HidingAChunk,
                    DeletingTheLastChunk,
                    RollingBack,
                )
            ),
        ],
    )
    def it_leaves_a_document_whole_in_every_moment_of(self, use, namespace, story, moments_of):
        corner = Corner(use, make_tenant(use)[0], namespace)
        first = self._first(corner, story)
        moments = moments_of(first)
        tellings = []
        for moment, name in moments:
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

    @pytest.mark.parametrize(
        "story",
        [
            Dropping,
            pytest.param(LettingGoOfWhatWasKept, marks=pytest.mark.thorough),
            pytest.param(Mending, marks=pytest.mark.thorough),
        ],
    )
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

    @pytest.mark.parametrize("twice", ["claim", "prepare", "write_unpublished", "embed", "show", "drop"])
    def it_makes_no_difference_to(self, corner, use, twice):
        corner.ingest(upload("a", OLD[0]), upload("b", "stays"))
        ticket = corner.accept(upload("a", NEW[0]), upload("c", "comes"))

        def times(step: str, do: Callable[[], Any]) -> Any:
            done = do()
            return do() if twice == step else done

        claims = take(corner.tenant, ticket.job_id, use).items
        lease = Lease(use.mysql, corner.tenant, claims, lease_s=use.settings.ingest_lease_s)
        if twice == "claim":
            assert take(corner.tenant, ticket.job_id, use).items == ()
        turn = Turn(corner.tenant, use, lambda *_: None, IngestQueue.INGEST)
        prepared = times("prepare", lambda: prepare(lease, use, turn))
        write_unpublished(lease, prepared, turn)
        if twice == "write_unpublished":  # as a worker does whose batch is spoiled
            claims = [replace(claim, again=True) for claim in claims]
            lease = Lease(use.mysql, corner.tenant, claims, lease_s=use.settings.ingest_lease_s)
            prepared = prepare(lease, use, turn)
            write_unpublished(lease, prepared, turn)
        embedded = times("embed", lambda: embed(lease, prepared, use, turn))
        publish(lease, embedded, use)
        if twice == "show":
            with pytest.raises(LeaseLost):
                publish(lease, embedded, use)
        make_old(corner, "retired_generations", "due_at")
        times("drop", lambda: drop_retired(corner.tenant, use))
        assert corner.shown() == {"a": NEW, "b": ["stays"], "c": ["comes"]}
        assert corner.job(ticket).outcomes == {"replaced": 1, "created": 1}
        corner.assert_clean()

    def it_makes_no_difference_to_deleting_editing_and_mending(self, corner, use):
        corner.ingest(upload("a", OLD[0]), upload("b", OLD[0]))
        [chunk] = owned(corner, "a")
        done = [edit_chunks(corner.tenant, [Edit(chunk_id=chunk.chunk_id, text=NEW[0])], use)[0] for _ in range(2)]
        assert [each.status for each in done] == ["updated", "unchanged"]
        gone = [delete_document(corner.tenant, corner.namespace, DocumentId("b"), use) for _ in range(2)]
        assert gone == [True, False]
        in_postgres(
            use, "DELETE FROM chunk_embeddings WHERE tenant_id = :tenant AND document_id = 'a'", tenant=corner.tenant
        )
        mended = [verify(corner.tenant, [corner.namespace], use, repair=True).repaired for _ in range(2)]
        assert mended == [1, 0]
        corner.assert_clean()

    def it_undoes_a_rollback_by_another_and_finds_nothing_behind_the_first_upload(self, corner, use):
        for texts in (OLD, NEW):
            corner.ingest(upload("a", texts[0]))
        for expected in (OLD, NEW):
            ticket = roll_back(
                corner.tenant, corner.namespace, DocumentId("a"), use, request_id="r", notify=lambda ticket: None
            )
            corner.work(ticket)
            assert corner.shown() == {"a": expected}
        with pytest.raises(GenerationNotKept):
            roll_back(
                corner.tenant, corner.namespace, DocumentId("a"), use, to=1, request_id="r", notify=lambda ticket: None
            )
        corner.assert_clean()
