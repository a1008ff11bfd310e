"""Ingestion on the real stores, without Celery: what it leaves behind wherever it dies, and when it runs again."""

from __future__ import annotations

import re

import pytest

from pipeline.administration.delete_documents import delete_document
from pipeline.records import DocumentId
from tests.support.corpora.uploads import upload
from tests.support.stacks.connections import breaking, embedding_with, sharing
from tests.support.stacks.corner import items_of

pytestmark = pytest.mark.own_databases


class DescribeIngestion:
    @pytest.mark.thorough
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

    def it_lets_the_other_jobs_go_on_at_once_as_well(self, corner, use):
        first, second = corner.accept(upload("a", "text")), corner.accept(upload("b", "other text"))
        for _ in range(5):
            corner.make_due()
            for ticket in (first, second):
                corner.work(ticket, embedding_with(use, away=True))
        corner.execute(
            "UPDATE job_items SET next_attempt_at = '2000-01-01' WHERE tenant_id = :tenant AND document_id = 'a'"
        )
        corner.work(first, use)
        corner.work(second, use)
        assert (corner.job(first).succeeded, corner.job(second).succeeded) == (1, 1)

    @pytest.mark.thorough
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
        [item] = items_of(use, ticket)
        assert item.attempts == use.settings.ingest_max_attempts
