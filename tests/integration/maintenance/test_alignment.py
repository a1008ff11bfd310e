"""Both stores corrupted at random: one pass mends all of it, and what searches see stays right meanwhile."""

from __future__ import annotations

import random
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import event, text

from pipeline.administration.delete_documents import delete_within
from pipeline.administration.edit_chunks import Edit, delete_chunks, edit_chunks
from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents import alignment_store
from pipeline.documents.chunk_edit_store import ChunkEdits
from pipeline.maintenance import verify as verifying
from pipeline.maintenance.reconcile import reconcile_tenant
from pipeline.maintenance.verify import recount, verify
from pipeline.records import DocumentId, Namespace
from tests.support.corpora.uploads import upload
from tests.support.stacks.connections import sharing
from tests.support.stacks.corner import Corner

pytestmark = pytest.mark.own_databases


def fill(corner: Corner, documents: int = 12) -> dict[str, list[str]]:
    corner.ingest(
        *(upload(f"d{n}", f"document number {n} of the pump. " * (1 + 120 * (n % 3))) for n in range(documents))
    )
    return corner.shown()


def mysql(corner: Corner, statement: str, **values: Any) -> Any:
    with unit_of_work(corner.use.mysql) as work:
        return work.connection.execute(text(statement), {"tenant": corner.tenant, **values})


def postgres(corner: Corner, statement: str, **values: Any) -> Any:
    with corner.use.postgres.begin() as connection:
        return connection.execute(text(statement), {"tenant": corner.tenant, **values})


def vector_ids(corner: Corner) -> list[str]:
    with corner.use.postgres.begin() as connection:
        rows = connection.execute(
            text("SELECT chunk_id FROM chunk_embeddings WHERE tenant_id = :tenant ORDER BY chunk_id"),
            {"tenant": corner.tenant},
        )
        return [str(each) for each in rows.scalars()]


_WHERE = "WHERE tenant_id = :tenant AND chunk_id = CAST(:id AS uuid)"
VECTOR_DAMAGE = {
    "lost": f"DELETE FROM chunk_embeddings {_WHERE}",
    "renamed": f"UPDATE chunk_embeddings SET chunk_id = gen_random_uuid() {_WHERE}",
    "other model": f"UPDATE chunk_embeddings SET model = 'other' {_WHERE}",
    "other text": f"UPDATE chunk_embeddings SET content_hash = '\\x00' {_WHERE}",
    "other document": f"UPDATE chunk_embeddings SET document_id = 'nobody' {_WHERE}",
    "other namespace": f"UPDATE chunk_embeddings SET namespace = 'elsewhere' {_WHERE}",
    "other generation": f"UPDATE chunk_embeddings SET generation = generation + 7 {_WHERE}",
}
STATISTICS_DAMAGE = [
    "UPDATE namespaces SET chunk_count = chunk_count + 9, term_count = 1 WHERE tenant_id = :tenant",
    "UPDATE namespaces SET term_count = term_count - 3 WHERE tenant_id = :tenant",
]
LOST_ROW = "DELETE FROM chunks WHERE tenant_id = :tenant ORDER BY chunk_id LIMIT 2"
LEFTOVER = (
    "INSERT INTO chunks (tenant_id, namespace, document_id, generation, ordinal, chunk_id, text, heading_path,"
    " start_offset, end_offset, token_count, content_hash, terms, term_count, created_at)"
    " SELECT tenant_id, namespace, document_id, 77, ordinal, UUID(), text, heading_path, start_offset, end_offset,"
    " token_count, content_hash, terms, term_count, created_at FROM chunks"
    " WHERE tenant_id = :tenant AND document_id = 'd3'"
)


class DescribeDamage:
    def it_mends_vectors_in_every_way_they_can_be_wrong(self, corner):
        shown = fill(corner, 4)
        for kind, statement in VECTOR_DAMAGE.items():
            postgres(corner, statement, id=vector_ids(corner)[0])
            assert verify(corner.tenant, None, corner.use, repair=True).repaired >= 1, kind
            assert corner.shown() == shown
            corner.assert_clean()
            assert verify(corner.tenant, None, corner.use, repair=False).repaired == 0, kind

    def it_mends_statistics(self, corner):
        fill(corner, 4)
        for statement in STATISTICS_DAMAGE:
            mysql(corner, statement)
            assert verify(corner.tenant, None, corner.use, repair=True).statistics >= 1, statement
            corner.assert_clean()

    def it_cuts_a_document_again_whose_chunks_were_lost(self, corner):
        shown = fill(corner, 6)
        mysql(corner, LOST_ROW)
        assert verify(corner.tenant, None, corner.use, repair=True).miscounted >= 1
        assert corner.shown() == shown
        corner.assert_clean()

    @pytest.mark.parametrize("body", [b"name,note\nbolt,long\n", b"name,never\n\x00\x01\x02\x03\xff\xfe"])
    def it_cuts_it_again_in_the_parser_process(self, corner, body):
        corner.ingest(upload("table", "name,note\nbolt,long\n", media_type="text/csv"))
        mysql(corner, "UPDATE payloads SET body = :body WHERE tenant_id = :tenant", body=body)
        mysql(corner, "DELETE FROM chunks WHERE tenant_id = :tenant")
        corner.use.parser.close()
        assert verify(corner.tenant, None, corner.use, repair=True).miscounted == 1
        assert [process.asked for process in corner.use.parser._idle] == [1]
        count = mysql(corner, "SELECT COUNT(*) FROM chunks WHERE tenant_id = :tenant").scalar_one()
        assert count == (0 if b"never" in body else 1)

    def it_drops_rows_nobody_needs(self, corner):
        shown = fill(corner, 4)
        rows = mysql(corner, LEFTOVER).rowcount
        found = verify(corner.tenant, None, corner.use, repair=True)
        assert (found.leftover, found.repaired) == (rows, rows)
        assert corner.shown() == shown
        corner.assert_clean()

    @pytest.mark.thorough
    @pytest.mark.parametrize("seed", range(3))
    def it_is_mended_in_one_pass_whatever_it_is(self, corner, seed, monkeypatch):
        monkeypatch.setattr(verifying, "PAGE_DOCUMENTS", 3)
        dice = random.Random(seed)
        shown = fill(corner)
        for chunk_id in dice.sample(vector_ids(corner), 8):
            postgres(corner, VECTOR_DAMAGE[dice.choice(list(VECTOR_DAMAGE))], id=chunk_id)
        for statement in dice.sample([*STATISTICS_DAMAGE, LOST_ROW, LEFTOVER], 3):
            mysql(corner, statement)
        verify(corner.tenant, None, corner.use, repair=True)
        assert corner.shown() == shown
        corner.assert_clean()

    @pytest.mark.thorough
    def it_finds_vectors_that_were_put_under_another_tenant(self, corner, use):
        from tests.conftest import make_tenant

        shown = fill(corner, 3)
        other = Corner(use, make_tenant(use)[0], Namespace(f"ns-{uuid.uuid4().hex[:8]}"))
        fill(other, 2)
        statement = f"UPDATE chunk_embeddings SET tenant_id = '{other.tenant}' {_WHERE}"
        postgres(corner, statement, id=vector_ids(corner)[0])
        assert verify(other.tenant, None, use, repair=True).misplaced == 1
        assert verify(corner.tenant, None, use, repair=True).missing == 1
        assert corner.shown() == shown
        corner.assert_clean()
        other.assert_clean()


class DescribeARecount:
    def it_is_right_beside_a_deletion_and_another_recount(self, corner, use):
        """A deletion locks the namespace when it counts; the repair must wait for it, and count what it left."""
        fill(corner)
        mysql(corner, STATISTICS_DAMAGE[0])
        deleting, repairing = threading.current_thread(), threading.Semaphore(0)

        def notice(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
            if "UPDATE namespaces SET chunk_count" in statement and threading.current_thread() is not deleting:
                repairing.release()

        event.listen(use.mysql, "before_cursor_execute", notice)
        try:
            with ThreadPoolExecutor(2) as pool:
                with unit_of_work(use.mysql) as work:
                    delete_within(work, corner.tenant, corner.namespace, [DocumentId("d1")])
                    repairs = [
                        pool.submit(recount, corner.tenant, corner.namespace, use, repair=True) for _ in range(2)
                    ]
                    assert all(repairing.acquire(timeout=10) for _ in repairs)
                assert [repair.result(timeout=30).statistics for repair in repairs] == [1, 1]
        finally:
            event.remove(use.mysql, "before_cursor_execute", notice)
        corner.assert_clean()


class DescribeWhatIsOnItsWay:
    def it_is_left_alone(self, corner, use):
        corner.ingest(upload("a", "old text"))
        ticket = corner.accept(upload("a", "new text"), upload("b", "another"))
        from tests.support.stacks.one_job import ingest_batch

        class Stop(BaseException):
            """As if the process were killed."""

        class Dying:
            model = use.embedder.model

            def embed(self, texts, **_):
                raise Stop

        dying = sharing(use, embedder=Dying())
        with pytest.raises(Stop):
            ingest_batch(corner.tenant, ticket.job_id, dying, notify=lambda *_: None)
        found = verify(corner.tenant, None, use, repair=True)
        assert (found.missing, found.orphaned, found.leftover, found.repaired) == (0, 0, 0, 0)
        corner.make_due()
        corner.work(ticket)
        assert corner.shown() == {"a": ["new text"], "b": ["another"]}
        corner.assert_clean()

    def it_is_neither_seen_nor_touched_while_documents_are_replaced_and_edited(self, corner, use):
        def churn() -> None:
            for n in range(5):
                corner.ingest(*(upload(f"d{m}", f"round {n} of document {m}. " * 40) for m in range(4)))
                with unit_of_work(use.mysql) as work:
                    edits = ChunkEdits(work.connection, corner.tenant)
                    found = edits.page(
                        corner.namespace, document_id=None, enabled=None, order_by="document_id", after=None, limit=2
                    )
                first, second = (chunk.chunk_id for chunk in found)
                edit_chunks(corner.tenant, [Edit(chunk_id=first, text=f"edited in round {n}")], use)
                delete_chunks(corner.tenant, [second], use)

        wrong = looks = 0
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(churn)
            while not running.done():
                found = verify(corner.tenant, None, use, repair=True)
                # A vector that is deleted just after its chunk may be met in between, and goes all the same.
                wrong += (
                    found.missing + found.stale + found.misplaced + found.miscounted + found.leftover + found.statistics
                )
                looks += 1
        running.result()
        assert looks > 2
        assert wrong == 0
        corner.assert_clean()


class DescribeTheReconciler:
    def it_goes_on_where_it_stopped_and_counts_what_it_found(self, corner, use, monkeypatch):
        monkeypatch.setattr(verifying, "PAGE_DOCUMENTS", 2)
        shown = fill(corner, 9)
        for chunk_id in vector_ids(corner)[:3]:
            postgres(corner, VECTOR_DAMAGE["lost"], id=chunk_id)
        with unit_of_work(use.mysql) as work:
            before = alignment_store.totals(work.connection)
        runs = [reconcile_tenant(corner.tenant, sharing(use), most=1) for _ in range(8)]
        assert sum(run.missing for run in runs) == 3
        assert corner.shown() == shown
        corner.assert_clean()
        with unit_of_work(use.mysql) as work:
            after = alignment_store.totals(work.connection)
        assert after.counted["missing"] - before.counted["missing"] >= 3
        assert after.last_run is not None
