"""Ingestion on the real stores, without Celery: what it leaves behind wherever it dies, and when it runs again."""

from __future__ import annotations

import re

import pytest
from sqlalchemy import text

from pipeline.administration.delete_documents import delete_document
from pipeline.database.unit_of_work import unit_of_work
from pipeline.maintenance.verify import verify
from pipeline.records import DocumentId
from tests.support.corpora.uploads import upload
from tests.support.stacks.connections import breaking, embedding_with, sharing

pytestmark = pytest.mark.own_databases


class DescribeIngestion:
    def it_leaves_both_stores_agreeing(self, corner):
        job = corner.ingest(upload("a", "The quick brown fox."), upload("b", "狐狸跳过了懒狗。" * 200, title="狐狸"))
        assert (job.status, job.succeeded) == ("succeeded", 2)
        assert job.chunks == len(corner.shown()["a"]) + len(corner.shown()["b"])
        assert job.stages == {"accepted": 2, "parse": 2, "chunk": 2, "embed": 2, "publish": 2}
        corner.assert_clean()

    def it_replaces_whole_and_leaves_nothing_of_the_old(self, corner):
        corner.ingest(upload("a", "one. " * 3000), upload("b", "stays"))
        corner.ingest(upload("a", "two"))
        assert corner.shown() == {"a": ["two"], "b": ["stays"]}
        corner.assert_clean()
        assert corner.rows("kept_generations") == 1  # to be rolled back to
        assert corner.rows("payloads") == corner.rows("generations") == 3

    @pytest.mark.parametrize("step", ["upsert", "counts"])
    def it_keeps_searches_whole_wherever_it_dies_and_finishes_when_run_again(self, corner, use, step):
        corner.ingest(upload("a", "the old text"))
        ticket = corner.accept(upload("a", "the new text"))
        broken = breaking(use, step)
        corner.work(ticket, broken)
        assert corner.shown() in ({"a": ["the old text"]}, {"a": ["the new text"]})
        assert corner.job(ticket).finished_at is None
        corner.make_due()
        corner.work(ticket)
        assert corner.shown() == {"a": ["the new text"]}
        assert corner.job(ticket).status == "succeeded"
        corner.assert_clean()

    def it_finishes_when_the_next_attempt_cuts_fewer_chunks(self, corner, use):
        ticket = corner.accept(upload("a", "A pump 水泵. " * 3000))
        corner.work(ticket, breaking(use, "counts"))
        # As after an upgrade that cuts differently.
        corner.execute(
            "UPDATE generations SET chunking = JSON_SET(chunking, '$.max_tokens', 2000) WHERE tenant_id = :tenant"
        )
        corner.make_due()
        corner.work(ticket)
        assert corner.job(ticket).status == "succeeded"
        corner.assert_clean()

    def it_does_the_same_when_a_worker_vanishes_after_claiming(self, corner, use):
        from pipeline.jobs.ledger_store import Ledger

        ticket = corner.accept(upload("a", "text"))
        with unit_of_work(use.mysql) as work:
            Ledger(work.connection, corner.tenant).claim(ticket.job_id, limit=9, max_bytes=9999, lease_s=30)
        corner.work(ticket)
        assert corner.job(ticket).status == "running"
        corner.make_due()
        corner.work(ticket)
        assert corner.job(ticket).status == "succeeded"
        corner.assert_clean()

    def it_shows_the_later_accepted_of_two_uploads_whichever_is_worked_on_first(self, corner):
        first = corner.accept(upload("a", "first"))
        second = corner.accept(upload("a", "second"))
        corner.work(second)
        corner.work(first)
        assert corner.shown() == {"a": ["second"]}
        assert corner.job(first).status == "succeeded"
        corner.assert_clean()

    def it_does_not_bring_back_what_was_deleted_meanwhile(self, corner, use):
        corner.ingest(upload("a", "old"))
        ticket = corner.accept(upload("a", "new"))
        assert delete_document(corner.tenant, corner.namespace, DocumentId("a"), use)
        corner.work(ticket)
        assert corner.shown() == {}
        assert corner.job(ticket).status == "succeeded"
        corner.assert_clean()
        corner.ingest(upload("a", "again"))
        assert corner.shown() == {"a": ["again"]}
        corner.assert_clean()

    def it_parks_the_document_the_model_refuses_and_takes_its_neighbours(self, corner, use):
        ticket = corner.accept(upload("a", "fine"), upload("b", "forbidden word"), upload("c", "fine too"))
        corner.work(ticket, embedding_with(use, refused="forbidden"))
        job = corner.job(ticket)
        assert (job.status, job.succeeded, job.failed) == ("partly_failed", 2, 1)
        assert [(error.document_id, error.code) for error in job.errors] == [("b", "embedder_refused")]
        assert set(corner.shown()) == {"a", "c"}

    def it_names_the_chunk_and_the_reason_of_a_document_that_is_parked(self, corner, use):
        two = "# One\n\n" + "fine words of a sentence. " * 100 + "\n\n# Two\n\nforbidden word"
        ticket = corner.accept(upload("a", "fine"), upload("b", two, media_type="text/markdown"))
        corner.work(ticket, embedding_with(use, refused="forbidden"))
        [error] = corner.job(ticket).errors
        assert error.document_id == "b"
        assert re.fullmatch("chunk [2-9] has no vector: not this text", error.detail)

    def it_lets_the_others_go_on_at_once_when_one_shows_that_an_outage_is_over(self, corner, use):
        small = sharing(use, ingest_batch_documents=1)
        ticket = corner.accept(*(upload(f"d{n}", f"text {n}") for n in range(5)))
        for _ in range(4):
            corner.work(ticket, embedding_with(use, away=True))
            corner.make_due()
        corner.work(ticket, embedding_with(use, away=True))
        corner.work(ticket, small)
        assert corner.job(ticket).succeeded == 0  # all wait, up to 16 s
        corner.execute("UPDATE job_items SET next_attempt_at = '2000-01-01' WHERE tenant_id = :tenant AND ordinal = 3")
        corner.work(ticket, small)
        assert corner.job(ticket).succeeded == 5

    def it_gives_up_only_the_document_that_ends_the_embedding_service(self, corner, use):
        ticket = corner.accept(*(upload(f"d{n}", "deadly word" if n == 4 else f"text {n}") for n in range(9)))
        for _ in range(use.settings.ingest_max_attempts):
            corner.work(ticket, embedding_with(use, ended_by="deadly"))
            corner.make_due()
        job = corner.job(ticket)
        assert (job.status, job.succeeded, job.failed) == ("partly_failed", 8, 1)
        assert [error.document_id for error in job.errors] == ["d4"]

    def it_waits_for_a_model_that_is_away_and_gives_up_in_the_end(self, corner, use):
        ticket = corner.accept(upload("a", "text"))
        away = embedding_with(use, away=True)
        for _ in range(use.settings.ingest_max_attempts):
            assert corner.job(ticket).finished_at is None
            corner.work(ticket, away)
            corner.make_due()
        job = corner.job(ticket)
        assert job.status == "failed"
        assert job.errors[0].code == "embedder_unavailable"
        assert job.errors[0].attempts == use.settings.ingest_max_attempts

    def it_parks_what_cannot_be_read_and_says_why(self, corner):
        binary = upload("bin", b"\x00\x01\x02" * 500)
        job = corner.ingest(upload("a", "fine"), binary, upload("blank", " \n "))
        assert (job.succeeded, job.failed) == (1, 2)
        assert {error.document_id: error.code for error in job.errors} == {
            "bin": "undecodable_text",
            "blank": "empty_document",
        }


class DescribeVerify:
    def it_finds_and_mends_what_was_corrupted(self, corner, use):
        corner.ingest(*(upload(f"d{n}", f"document number {n} about something") for n in range(8)))
        with use.postgres.begin() as connection:
            ids = list(
                connection.execute(
                    text("SELECT chunk_id FROM chunk_embeddings WHERE tenant_id = :tenant ORDER BY chunk_id"),
                    {"tenant": corner.tenant},
                ).scalars()
            )
            values = {"tenant": corner.tenant, "one": ids[0], "two": ids[1], "three": ids[2]}
            connection.execute(
                text("DELETE FROM chunk_embeddings WHERE tenant_id = :tenant AND chunk_id = :one"), values
            )
            connection.execute(
                text(
                    "UPDATE chunk_embeddings SET chunk_id = gen_random_uuid() WHERE tenant_id = :tenant AND chunk_id = :two"
                ),
                values,
            )
            connection.execute(
                text("UPDATE chunk_embeddings SET model = 'other' WHERE tenant_id = :tenant AND chunk_id = :three"),
                values,
            )
        found = verify(corner.tenant, [corner.namespace], use, repair=True)
        assert (found.missing, found.orphaned, found.stale, found.repaired) == (2, 1, 1, 4)
        corner.assert_clean()
