"""Ingestion on the real stores, without Celery: what it leaves behind wherever it dies, and when it runs again."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from sqlalchemy import text

from pipeline.administration.delete_documents import delete_document
from pipeline.administration.drop_retired import drop_retired
from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import EmbedderRefused, EmbedderUnavailable, StoreUnavailable
from pipeline.ingestion.accept import AcceptedJob, Batch, Refusal, accept
from pipeline.jobs.job_view_store import JobView, JobViews
from pipeline.maintenance.sweep import sweep
from pipeline.maintenance.verify import verify
from pipeline.records import DocumentFields, DocumentId, Namespace, TenantId, Upload
from pipeline.resources import Resources
from tests.support.stacks.one_job import ingest_batch


def _upload(document_id: str, body: str, **fields: Any) -> Upload:
    return Upload(
        document_id=DocumentId(document_id),
        fields=DocumentFields(**fields),
        body=body.encode(),
        media_type="text/plain",
    )


class Corner:
    """One tenant's namespace and the few steps tests take in it."""

    def __init__(self, use: Resources, tenant: TenantId, namespace: Namespace) -> None:
        self.use, self.tenant, self.namespace = use, tenant, namespace

    def accept(self, *entries: Upload | Refusal, on_conflict: Any = "replace") -> AcceptedJob:
        batch = Batch(
            tenant_id=self.tenant, namespace=self.namespace, request_id="r", entries=entries, on_conflict=on_conflict
        )
        return accept(batch, self.use, ring=lambda ticket: None)

    def work(self, ticket: AcceptedJob, use: Resources | None = None) -> None:
        while ingest_batch(self.tenant, ticket.job_id, use or self.use, ring=lambda *_: None):
            pass

    def ingest(self, *entries: Upload) -> JobView:
        ticket = self.accept(*entries)
        self.work(ticket)
        return self.job(ticket)

    def job(self, ticket: AcceptedJob) -> JobView:
        with unit_of_work(self.use.mysql) as work:
            found = JobViews(work.connection, self.tenant).one(ticket.job_id)
        assert found is not None
        return found

    def make_due(self) -> None:
        """Let what waits for its next attempt, or for a lease to run out, be due now."""
        with unit_of_work(self.use.mysql) as work:
            for column, state in (("next_attempt_at", "queued"), ("lease_until", "running")):
                work.connection.execute(
                    text(f"UPDATE job_items SET {column} = '2000-01-01' WHERE tenant_id = :tenant AND state = :state"),
                    {"tenant": self.tenant, "state": state},
                )
        sweep(self.use, ring=lambda *_: None)

    def _assert_aligned(self) -> None:
        report = verify(self.tenant, None, self.use, repair=False)
        assert (report.missing, report.orphaned, report.stale) == (0, 0, 0)

    def shown(self) -> dict[str, list[str]]:
        """The texts searches may see, by document."""
        with unit_of_work(self.use.mysql) as work:
            rows = work.connection.execute(
                text(
                    "SELECT c.document_id, c.text FROM chunks c JOIN documents d ON d.tenant_id = c.tenant_id"
                    " AND d.namespace = c.namespace AND d.document_id = c.document_id"
                    " AND d.published_generation = c.generation WHERE c.tenant_id = :tenant ORDER BY c.ordinal"
                ),
                {"tenant": self.tenant},
            )
            texts: dict[str, list[str]] = {}
            for document_id, chunk in rows:
                texts.setdefault(document_id, []).append(chunk)
        return texts

    def rows(self, table: str) -> int:
        with unit_of_work(self.use.mysql) as work:
            count = work.connection.execute(
                text(f"SELECT COUNT(*) FROM {table} WHERE tenant_id = :tenant"), {"tenant": self.tenant}
            )
            return int(count.scalar_one())

    def assert_clean(self) -> None:
        """Both stores agree, nothing is left of earlier generations, and the statistics are those of the shown chunks."""
        self._assert_aligned()
        with unit_of_work(self.use.mysql) as work:
            work.connection.execute(
                text("UPDATE retired_generations SET due_at = '2000-01-01' WHERE tenant_id = :tenant"),
                {"tenant": self.tenant},
            )
        drop_retired(self.tenant, self.use)
        self._assert_aligned()
        assert self.rows("chunks") == sum(len(texts) for texts in self.shown().values())
        with unit_of_work(self.use.mysql) as work:
            terms = work.connection.execute(
                text("SELECT terms FROM chunks WHERE tenant_id = :tenant"), {"tenant": self.tenant}
            ).scalars()
            counted = Counter(term for row in terms for term in set(row.split()))
            kept = work.connection.execute(
                text("SELECT term, chunk_count FROM term_statistics WHERE tenant_id = :tenant AND chunk_count <> 0"),
                {"tenant": self.tenant},
            )
            assert {row.term: row.chunk_count for row in kept} == dict(counted)
            assert work.connection.execute(text("SELECT COUNT(*) FROM term_changes")).scalar_one() == 0
            sizes = work.connection.execute(
                text("SELECT chunk_count FROM namespaces WHERE tenant_id = :tenant"), {"tenant": self.tenant}
            ).scalars()
            assert sum(sizes) == self.rows("chunks")


@pytest.fixture(scope="module")
def use(use_alone: Resources) -> Resources:
    """Stores that the stack's own workers and sweeper do not know."""
    return use_alone


@pytest.fixture
def corner(use, tenant, namespace) -> Corner:
    return Corner(use, tenant, namespace)


class BreakingVectors:
    """The real vector store, with one of its calls failing."""

    def __init__(self, real: Any, broken: str) -> None:
        self._real, self._broken = real, broken

    def __getattr__(self, name: str) -> Any:
        if name == self._broken:
            raise StoreUnavailable(f"PostgreSQL: gone before {name}")
        return getattr(self._real, name)


class BreakingStore(Resources):
    """Resources whose vector store fails at one step, as if PostgreSQL had gone away just then."""

    broken = ""

    def vectors(self, tenant_id: TenantId) -> Any:
        return BreakingVectors(super().vectors(tenant_id), self.broken)


def breaking(use: Resources, step: str) -> Resources:
    broken = BreakingStore(use.settings)
    broken.__dict__.update(_connections(use), embedder=use.embedder, broken=step)
    return broken


class RefusingEmbedder:
    """The real embedder, except that it will not take texts with a certain word, or none for a while."""

    def __init__(self, real: Any, *, refused: str = "", away: bool = False) -> None:
        self._real, self._refused, self._away = real, refused, away
        self.model = real.model

    def embed(self, texts: Any, **options: Any) -> Any:
        if self._away:
            raise EmbedderUnavailable("the service is away", retry_after_s=5)
        guilty = tuple(n for n, text in enumerate(texts) if self._refused and self._refused in text)
        if guilty:
            raise EmbedderRefused("not this text", indexes=guilty)
        return self._real.embed(texts, **options)

    def close(self) -> None:
        self._real.close()


def embedding_with(use: Resources, **behaviour: Any) -> Resources:
    other = Resources(use.settings)
    other.__dict__.update(_connections(use), embedder=RefusingEmbedder(use.embedder, **behaviour))
    return other


def _connections(use: Resources) -> dict[str, Any]:
    return {"mysql": use.mysql, "postgres": use.postgres, "redis": use.redis}


class DescribeIngestion:
    def it_leaves_both_stores_agreeing(self, corner):
        job = corner.ingest(_upload("a", "The quick brown fox."), _upload("b", "狐狸跳过了懒狗。" * 200, title="狐狸"))
        assert (job.status, job.succeeded) == ("succeeded", 2)
        assert job.chunks == len(corner.shown()["a"]) + len(corner.shown()["b"])
        assert job.stages == {"accepted": 2, "parse": 2, "chunk": 2, "embed": 2, "publish": 2}
        corner.assert_clean()

    def it_replaces_whole_and_leaves_nothing_of_the_old(self, corner):
        corner.ingest(_upload("a", "one. " * 3000), _upload("b", "stays"))
        corner.ingest(_upload("a", "two"))
        assert corner.shown() == {"a": ["two"], "b": ["stays"]}
        corner.assert_clean()
        assert corner.rows("kept_generations") == 1  # to be rolled back to
        assert corner.rows("payloads") == corner.rows("generations") == 3

    @pytest.mark.parametrize("step", ["upsert", "counts"])
    def it_keeps_searches_whole_wherever_it_dies_and_finishes_when_run_again(self, corner, use, step):
        corner.ingest(_upload("a", "the old text"))
        ticket = corner.accept(_upload("a", "the new text"))
        broken = breaking(use, step)
        corner.work(ticket, broken)
        assert corner.shown() in ({"a": ["the old text"]}, {"a": ["the new text"]})
        assert corner.job(ticket).finished_at is None
        corner.make_due()
        corner.work(ticket)
        assert corner.shown() == {"a": ["the new text"]}
        assert corner.job(ticket).status == "succeeded"
        corner.assert_clean()

    def it_does_the_same_when_a_worker_vanishes_after_claiming(self, corner, use):
        from pipeline.jobs.ledger_store import Ledger

        ticket = corner.accept(_upload("a", "text"))
        with unit_of_work(use.mysql) as work:
            Ledger(work.connection, corner.tenant).claim(ticket.job_id, limit=9, max_bytes=9999, lease_s=30)
        corner.work(ticket)
        assert corner.job(ticket).status == "running"
        corner.make_due()
        corner.work(ticket)
        assert corner.job(ticket).status == "succeeded"
        corner.assert_clean()

    def it_shows_the_later_accepted_of_two_uploads_whichever_is_worked_on_first(self, corner):
        first = corner.accept(_upload("a", "first"))
        second = corner.accept(_upload("a", "second"))
        corner.work(second)
        corner.work(first)
        assert corner.shown() == {"a": ["second"]}
        assert corner.job(first).status == "succeeded"
        corner.assert_clean()

    def it_does_not_bring_back_what_was_deleted_meanwhile(self, corner, use):
        corner.ingest(_upload("a", "old"))
        ticket = corner.accept(_upload("a", "new"))
        assert delete_document(corner.tenant, corner.namespace, DocumentId("a"), use)
        corner.work(ticket)
        assert corner.shown() == {}
        assert corner.job(ticket).status == "succeeded"
        corner.assert_clean()
        corner.ingest(_upload("a", "again"))
        assert corner.shown() == {"a": ["again"]}
        corner.assert_clean()

    def it_parks_the_document_the_model_refuses_and_takes_its_neighbours(self, corner, use):
        ticket = corner.accept(_upload("a", "fine"), _upload("b", "forbidden word"), _upload("c", "fine too"))
        corner.work(ticket, embedding_with(use, refused="forbidden"))
        job = corner.job(ticket)
        assert (job.status, job.succeeded, job.failed) == ("partly_failed", 2, 1)
        assert [(error.document_id, error.code) for error in job.errors] == [("b", "embedder_refused")]
        assert set(corner.shown()) == {"a", "c"}

    def it_waits_for_a_model_that_is_away_and_gives_up_in_the_end(self, corner, use):
        ticket = corner.accept(_upload("a", "text"))
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
        binary = Upload(
            document_id=DocumentId("bin"), fields=DocumentFields(), body=b"\x00\x01\x02" * 500, media_type="text/plain"
        )
        job = corner.ingest(_upload("a", "fine"), binary, _upload("blank", " \n "))
        assert (job.succeeded, job.failed) == (1, 2)
        assert {error.document_id: error.code for error in job.errors} == {
            "bin": "undecodable_text",
            "blank": "empty_document",
        }


class DescribeVerify:
    def it_finds_and_mends_what_was_corrupted(self, corner, use):
        corner.ingest(*(_upload(f"d{n}", f"document number {n} about something") for n in range(8)))
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
