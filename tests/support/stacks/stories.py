"""Changes of documents, each told so that it can be broken off in every moment and begun again."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from pipeline.administration.delete_documents import delete_document
from pipeline.administration.drop_replaced import drop_retired
from pipeline.administration.edit_chunks import Edit, delete_chunks, edit_chunks
from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents.chunk_edit_store import ChunkEdits
from pipeline.documents.document_views import OwnedChunk
from pipeline.ingestion.accept import AcceptedJob, Batch, accept
from pipeline.ingestion.reingest import roll_back
from pipeline.ingestion.run import ingest_claims, take
from pipeline.ingestion.yield_turn import Turn
from pipeline.jobs.ledger_store import Ledger
from pipeline.maintenance.sweep import release_kept
from pipeline.maintenance.verify import verify
from pipeline.records import DocumentId, IngestQueue
from tests.support.corpora.uploads import upload
from tests.support.stacks.connections import in_mysql
from tests.support.stacks.corner import Corner
from tests.support.stacks.dying import Died, Moments, watched

OLD, NEW = ["the old text"], ["the new text"]


class Story:
    """One change of one document: how it begins, what it does, how it is begun again, and what must be true."""

    passes: tuple[str, ...] = ()  # moments there must be, or the story has lost what it is about
    during: tuple[list[str] | None, ...] = (OLD, NEW)
    after: list[str] | None = NEW

    def __init__(self, corner: Corner, document_id: str) -> None:
        self.corner, self.document_id = corner, DocumentId(document_id)
        self.told: Moments = Moments()

    def begin(self) -> None:
        """Prepare the state before the change."""
        self.corner.ingest(upload(self.document_id, OLD[0]))

    def act(self) -> None:
        """Make the change, whose moments are counted."""
        raise NotImplementedError

    def again(self) -> None:
        """Resume the change as the next process would."""
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
        "notify",
    )
    during = (OLD,)

    def act(self) -> None:
        batch = Batch(
            tenant_id=self.corner.tenant,
            namespace=self.corner.namespace,
            request_id="r",
            entries=[upload(self.document_id, NEW[0])],
        )
        accept(batch, self.corner.use, notify=lambda ticket: self.told.pass_by("notify"))

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
        "mysql: UPDATE namespaces",
        "mysql: commit",
    )

    def begin(self) -> None:
        super().begin()
        self.ticket = self.corner.accept(upload(self.document_id, NEW[0]))

    def act(self) -> None:
        self.corner.work(self.ticket)


class IngestingTheFirst(Ingesting):
    passes = ("mysql: INSERT INTO chunks", "postgres: commit", "mysql: UPDATE documents")
    during = (None, NEW)

    def begin(self) -> None:
        self.ticket = self.corner.accept(upload(self.document_id, NEW[0]))


class IngestingTheSame(Ingesting):
    passes = ("mysql: UPDATE documents", "mysql: DELETE FROM payloads", "mysql: DELETE FROM generations")
    during = (OLD,)
    after = OLD

    def begin(self) -> None:
        self.corner.ingest(upload(self.document_id, OLD[0]))
        self.ticket = self.corner.accept(upload(self.document_id, OLD[0]))


class MovingToTheQueueOfLongDocuments(Ingesting):
    """A document that took long for its batch, and ends in the other queue."""

    passes = ("mysql: UPDATE job_items", "mysql: INSERT INTO chunks", "mysql: UPDATE documents")

    def act(self) -> None:
        tenant, job_id, use = self.corner.tenant, self.ticket.job_id, self.corner.use
        batch = take(tenant, job_id, use)
        if batch is not None and batch.items:
            Turn(tenant, use, lambda *_: None, IngestQueue.INGEST).leave(long=batch.items)
        while (long := take(tenant, job_id, use, queue=IngestQueue.LONG)) is not None and long.items:
            ingest_claims(tenant, long.items, use, notify=lambda *_: None, queue=IngestQueue.LONG)


class Rejecting(Ingesting):
    passes = ("mysql: INSERT INTO retired_generations", "mysql: UPDATE job_items")
    during = (OLD,)
    after = OLD

    def begin(self) -> None:
        self.corner.ingest(upload(self.document_id, OLD[0]))
        self.ticket = self.corner.accept(upload(self.document_id, " "))


class Deleting(Story):
    passes = (
        "mysql: UPDATE documents",
        "mysql: UPDATE namespaces",
        "mysql: INSERT INTO retired_generations",
    )
    during = (OLD, None)
    after = None

    def act(self) -> None:
        delete_document(self.corner.tenant, self.corner.namespace, self.document_id, self.corner.use)


class EditingAChunk(Story):
    passes = ("postgres: commit", "mysql: UPDATE chunks", "mysql: UPDATE namespaces", "mysql: commit")

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
    passes = ("mysql: INSERT INTO payloads", "mysql: INSERT INTO generations", "mysql: INSERT INTO job_items", "notify")
    during = (OLD,)

    def begin(self) -> None:
        for texts in (NEW, OLD):
            self.corner.ingest(upload(self.document_id, texts[0]))

    def act(self) -> None:
        roll_back(
            self.corner.tenant,
            self.corner.namespace,
            self.document_id,
            self.corner.use,
            to=1,
            request_id="r",
            notify=lambda ticket: self.told.pass_by("notify"),
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
            self.corner.ingest(upload(self.document_id, body))
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
    passes = ("postgres: commit", "postgres: DELETE FROM chunk_embeddings", "mysql: UPDATE namespaces")
    during = (OLD,)
    after = OLD

    def begin(self) -> None:
        self.corner.ingest(upload(self.document_id, OLD[0]), upload("other", "another text"))
        values = {"tenant": self.corner.tenant, "document": self.document_id}
        with self.corner.use.postgres.begin() as connection:
            connection.execute(
                text("DELETE FROM chunk_embeddings WHERE tenant_id = :tenant AND document_id = :document"), values
            )
            connection.execute(
                text("UPDATE chunk_embeddings SET chunk_id = gen_random_uuid() WHERE tenant_id = :tenant"), values
            )
        in_mysql(
            self.corner.use,
            "UPDATE namespaces SET chunk_count = chunk_count + 1 WHERE tenant_id = :tenant",
            **values,
        )

    def act(self) -> None:
        verify(self.corner.tenant, [self.corner.namespace], self.corner.use, repair=True)


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
        corner.work(AcceptedJob(tenant_id=corner.tenant, job_id=job_id, request_id="r", total=1, due=1))


def make_old(corner: Corner, table: str, column: str) -> None:
    corner.execute(f"UPDATE {table} SET {column} = '2000-01-01' WHERE tenant_id = :tenant")
