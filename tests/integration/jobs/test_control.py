"""Jobs called back, tried again and put to rest, and their dead letters, on the real stores."""

from __future__ import annotations

import pytest

from pipeline.administration import steer_jobs
from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import EmbedderUnavailable
from pipeline.ingestion import run
from pipeline.jobs.control_store import DeadLetters
from pipeline.jobs.job_views import DeadLetterFilter, LedgerPosition
from pipeline.jobs.turn_store import backlog
from pipeline.records import FailureReason
from tests.support.corpora.uploads import upload
from tests.support.stacks.connections import sharing
from tests.support.stacks.corner import Corner
from tests.support.stacks.one_job import ingest_batch

pytestmark = pytest.mark.own_databases


def nobody(*_: object) -> None:
    """Take a notification and do nothing; the tests call the flow themselves."""


def documents(count: int) -> list:
    return [upload(f"d{number}", f"The kettle number {number} boils.") for number in range(count)]


def letters(corner: Corner, **chosen) -> list:
    with unit_of_work(corner.use.mysql) as work:
        return DeadLetters(work.connection, corner.tenant).page(DeadLetterFilter(**chosen), before=None, limit=100)


def dead(use) -> int:
    """Return the number of dead letters of all tenants."""
    with unit_of_work(use.mysql) as work:
        return sum(backlog(work.connection).dead_letters.values())


class Failing:
    """An embedder that raises the given error."""

    def __init__(self, embedder, error: Exception) -> None:
        self.model, self.dimension = embedder.model, getattr(embedder, "dimension", None)
        self._error = error

    def embed(self, texts, **_):
        raise self._error


def failing(use, error: Exception):
    """Resources with which a document is given up at once."""
    return sharing(use, ingest_max_attempts=1, embedder=Failing(use.embedder, error))


class DescribeCancelling:
    @pytest.mark.parametrize("step", ["prepare", "write_unpublished", "embed", "publish"])
    def it_takes_the_pen_from_a_worker_in_the_middle(self, corner, use, monkeypatch, step):
        ticket = corner.accept(*documents(3))
        original = getattr(run, step)

        def cancelled_before(*args, **kwargs):
            steer_jobs.cancel(corner.tenant, ticket.job_id, use)
            return original(*args, **kwargs)

        monkeypatch.setattr(run, step, cancelled_before)
        corner.work(ticket)
        assert corner.shown() == {}
        assert corner.job(ticket).cancelled == 3
        corner.assert_clean()

    def it_leaves_the_rest_of_a_mixed_batch_to_the_worker(self, corner, use, monkeypatch):
        ticket = corner.accept(*documents(3))
        original = run.embed

        def one_called_back(*everything):
            monkeypatch.setattr(run, "embed", original)
            with unit_of_work(use.mysql) as work:
                work.connection.exec_driver_sql(
                    "UPDATE job_items SET state = 'cancelled', fencing_token = fencing_token + 1"
                    " WHERE tenant_id = %s AND job_id = %s AND ordinal = 1",
                    (corner.tenant, ticket.job_id),
                )
            return original(*everything)

        monkeypatch.setattr(run, "embed", one_called_back)
        corner.work(ticket)
        assert sorted(corner.shown()) == ["d0", "d2"]


class DescribePausing:
    def it_lets_nothing_be_taken_until_it_is_resumed(self, corner, use):
        ticket = corner.accept(*documents(2))
        notified: list[object] = []
        steer_jobs.pause(corner.tenant, ticket.job_id, use)
        steer_jobs.pause(corner.tenant, ticket.job_id, use)
        assert ingest_batch(corner.tenant, ticket.job_id, use, notify=nobody) == 0
        job = corner.job(ticket)
        assert (job.status, job.waiting_reason) == ("queued", "paused")
        assert job.paused_at is not None
        steer_jobs.resume(corner.tenant, ticket.job_id, use, notify=lambda *who: notified.append(who))
        assert notified == [(corner.tenant, ticket.job_id)]
        corner.work(ticket)
        assert corner.job(ticket).status == "succeeded"


@pytest.mark.thorough
class DescribeDeadLetters:
    def it_tells_who_is_at_fault(self, corner, use):
        rejected = corner.accept(upload("empty", " "))
        corner.work(rejected)
        gone = corner.accept(upload("away", "text"))
        corner.work(gone, failing(use, EmbedderUnavailable("not there")))
        bug = corner.accept(upload("bug", "text"))
        corner.work(bug, failing(use, ZeroDivisionError()))
        found = {letter.document_id: letter for letter in letters(corner)}
        assert {name: letter.reason for name, letter in found.items()} == {
            "empty": FailureReason.REJECTED,
            "away": FailureReason.GAVE_UP,
            "bug": FailureReason.BUG,
        }
        away = found["away"]
        assert (away.code, away.stage, away.attempts) == ("embedder_unavailable", "chunk", 1)
        assert away.payload.available
        assert (away.payload.media_type, away.payload.bytes) == ("text/plain", 4)
        assert [letter.document_id for letter in letters(corner, reason=FailureReason.BUG)] == ["bug"]
        assert [letter.document_id for letter in letters(corner, job_id=gone.job_id)] == ["away"]
        assert [letter.document_id for letter in letters(corner, code="empty_document")] == ["empty"]
        assert letters(corner, namespace="elsewhere") == []

    def it_counts_nothing_any_more_once_they_are_replayed(self, corner, use):
        ticket = corner.accept(*documents(3))
        corner.work(ticket, failing(use, EmbedderUnavailable("not there")))
        assert corner.job(ticket).failed == 3
        replayed = steer_jobs.replay_selected(
            corner.tenant, DeadLetterFilter(reason=FailureReason.GAVE_UP), use, notify=nobody
        )
        job = corner.job(ticket)
        assert (replayed, job.failed, job.status, job.finished_at) == (3, 0, "queued", None)
        assert letters(corner) == []
        corner.work(ticket)
        job = corner.job(ticket)
        assert (job.succeeded, job.failed, job.errors) == (3, 0, ())
        corner.assert_clean()

    def it_does_not_show_an_old_upload_over_a_later_one(self, corner, use):
        ticket = corner.accept(upload("d", "old"))
        corner.work(ticket, failing(use, EmbedderUnavailable("not there")))
        corner.ingest(upload("d", "new"))
        assert letters(corner) == []
        assert steer_jobs.retry(corner.tenant, ticket.job_id, use, notify=nobody) == 1
        corner.make_due()
        corner.work(ticket)
        assert corner.shown() == {"d": ["new"]}
        assert (corner.job(ticket).status, letters(corner)) == ("succeeded", [])

    def it_keeps_one_whose_document_was_uploaded_again_until_that_is_searchable(self, corner, use):
        before = dead(use)
        first = corner.accept(upload("d", "old"))
        second = corner.accept(upload("d", "new"))
        corner.work(first, failing(use, EmbedderUnavailable("not there")))
        assert [letter.generation for letter in letters(corner)] == [1]
        corner.work(second)
        assert (letters(corner), dead(use)) == ([], before)

    def it_drops_the_bytes_and_keeps_the_count(self, corner, use):
        ticket = corner.accept(*documents(1))
        corner.work(ticket, failing(use, EmbedderUnavailable("not there")))
        [letter] = letters(corner)
        with unit_of_work(use.mysql) as work:
            assert DeadLetters(work.connection, corner.tenant).drop(LedgerPosition.from_id(letter.id))
            assert not DeadLetters(work.connection, corner.tenant).drop(LedgerPosition.from_id(letter.id))
        assert (letters(corner), corner.rows("payloads"), corner.job(ticket).failed) == ([], 0, 1)
        with pytest.raises(steer_jobs.WrongJobState):
            steer_jobs.retry(corner.tenant, ticket.job_id, use, notify=nobody)

    def it_keeps_only_the_latest_of_a_documents_uploads_without_bytes(self, corner, use):
        for body in ("first 一", "second 二", "third 三"):
            corner.work(corner.accept(upload("d", body)), failing(use, EmbedderUnavailable("not there")))
        assert corner.rows("generations") == 3
        [letter] = letters(corner)
        assert steer_jobs.drop_dead_letter(corner.tenant, LedgerPosition.from_id(letter.id), use)
        assert (letters(corner), corner.rows("payloads"), corner.rows("generations")) == ([], 0, 1)
        corner.ingest(upload("d", "fourth 四"))
        assert corner.shown() == {"d": ["fourth 四"]}

    def it_waits_with_a_new_attempt_until_the_old_rows_are_gone(self, corner, use, monkeypatch):
        ticket = corner.accept(*documents(1))
        corner.work(ticket, failing(use, EmbedderUnavailable("not there")))
        monkeypatch.setattr(steer_jobs, "drop_retired", nobody)
        assert steer_jobs.retry(corner.tenant, ticket.job_id, use, notify=nobody) == 1
        assert ingest_batch(corner.tenant, ticket.job_id, use, notify=nobody) == 0
        corner.make_due()
        corner.work(ticket)
        assert corner.job(ticket).status == "succeeded"
        corner.assert_clean()


@pytest.mark.parametrize("letter_id", ["", "x", "%%%", "AAAA", "A" * 27 + "=="])
def test_what_is_no_id_is_no_place(letter_id):
    assert LedgerPosition.from_id(letter_id) is None
