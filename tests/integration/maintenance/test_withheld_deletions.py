"""A repair that would delete a large share of a tenant repairs the rest and waits for confirmation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from api_gateway.http.metrics import LedgerMetrics
from pipeline.administration.read_metrics import read_ledger
from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents import alignment_store
from pipeline.maintenance import examine_stores
from pipeline.maintenance.compare import DELETED_FREELY, DeletionLimit
from pipeline.maintenance.doctor import Severity
from pipeline.maintenance.reconcile import reconcile_tenant
from pipeline.maintenance.verify import verify
from pipeline.records import Namespace
from pipeline.resources import Resources
from tests.conftest import make_tenant
from tests.support.corpora.uploads import upload
from tests.support.stacks.connections import in_mysql
from tests.support.stacks.corner import Corner

pytestmark = pytest.mark.own_databases

ORPHANS = DELETED_FREELY + 20

# Vectors of documents that MySQL does not hold, as after a restore from an old backup.
ORPHANED = text(
    "INSERT INTO chunk_embeddings (tenant_id, chunk_id, namespace, document_id, generation, embedding, model, content_hash,"
    " tags, metadata) SELECT tenant_id, gen_random_uuid(), namespace, 'lost-' || n, 1, embedding, model, content_hash,"
    " tags, metadata FROM (SELECT * FROM chunk_embeddings WHERE tenant_id = :tenant LIMIT 1) one, generate_series(1, :many) n"
)
# Rows of a generation that nobody needs, of a document that there is.
LEFTOVER = text(
    "INSERT INTO chunks (tenant_id, namespace, document_id, generation, ordinal, chunk_id, text, heading_path,"
    " start_offset, end_offset, token_count, content_hash, terms, term_count, created_at)"
    " WITH RECURSIVE n (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM n WHERE seq < :many)"
    " SELECT c.tenant_id, c.namespace, c.document_id, 77, n.seq, UUID(), text, heading_path, start_offset, end_offset,"
    " token_count, content_hash, terms, term_count, created_at FROM chunks c JOIN n"
    " WHERE c.tenant_id = :tenant AND c.document_id = 'd0'"
)


@pytest.fixture
def corner(use: Resources) -> Iterator[Corner]:
    """A tenant with a few documents; forgotten afterwards, as the doctor looks at all tenants."""
    found = Corner(use, make_tenant(use)[0], Namespace("kb"))
    found.ingest(*(upload(f"d{n}", f"Document number {n} of the pump.") for n in range(4)))
    yield found
    in_mysql(use, "DELETE FROM alignment_state WHERE tenant_id = :tenant", tenant=found.tenant)


def orphan(corner: Corner, many: int) -> None:
    with corner.use.postgres.begin() as connection:
        connection.execute(ORPHANED, {"tenant": corner.tenant, "many": many})


def vectors(corner: Corner) -> int:
    statement = text("SELECT count(*) FROM chunk_embeddings WHERE tenant_id = :tenant")
    with corner.use.postgres.connect() as connection:
        return int(connection.execute(statement, {"tenant": corner.tenant}).scalar_one())


def withheld(corner: Corner) -> int:
    with unit_of_work(corner.use.mysql) as work:
        return alignment_store.deletions_of(work.connection, corner.tenant).withheld


class DescribeARepair:
    def it_mends_the_rest_and_deletes_once_it_is_confirmed(self, corner):
        shown = vectors(corner)
        orphan(corner, ORPHANS)
        with corner.use.postgres.begin() as connection:
            damage = text(
                "UPDATE chunk_embeddings SET model = 'other' WHERE tenant_id = :tenant AND document_id = 'd1'"
            )
            stale = connection.execute(damage, {"tenant": corner.tenant}).rowcount
        report = verify(corner.tenant, None, corner.use, repair=True)
        assert (report.stale, report.repaired, report.orphaned) == (stale, stale, ORPHANS)
        assert report.withheld == withheld(corner) == ORPHANS
        assert vectors(corner) == shown + ORPHANS
        assert verify(corner.tenant, None, corner.use, repair=True).repaired == 0
        confirmed = verify(corner.tenant, None, corner.use, repair=True, delete_share=1.0)
        assert (confirmed.repaired, confirmed.withheld, withheld(corner)) == (ORPHANS, 0, 0)
        assert vectors(corner) == shown
        corner.assert_clean()

    def it_deletes_what_is_little(self, corner):
        shown = vectors(corner)
        orphan(corner, DELETED_FREELY)
        report = verify(corner.tenant, None, corner.use, repair=True)
        assert (report.repaired, report.withheld) == (DELETED_FREELY, 0)
        assert vectors(corner) == shown

    @pytest.mark.thorough
    def it_withholds_rows_of_chunks_too(self, corner):
        with unit_of_work(corner.use.mysql) as work:
            rows = work.connection.execute(LEFTOVER, {"tenant": corner.tenant, "many": ORPHANS}).rowcount
        report = verify(corner.tenant, None, corner.use, repair=True)
        assert (report.leftover, report.withheld) == (rows, rows)
        confirmed = verify(corner.tenant, None, corner.use, repair=True, delete_share=1.0)
        assert (confirmed.repaired, confirmed.withheld) == (rows, 0)
        corner.assert_clean()


class DescribeTheReconciler:
    def it_asks_and_deletes_nothing_however_often_it_comes_by(self, corner):
        shown = vectors(corner)
        orphan(corner, ORPHANS)
        for _ in range(3):
            reconcile_tenant(corner.tenant, corner.use)
            assert vectors(corner) == shown + ORPHANS
            assert withheld(corner) == ORPHANS
        found = examine_stores.deletions(corner.use)
        assert found.severity is Severity.FAILED
        assert f"{ORPHANS} of tenant {corner.tenant}" in found.detail
        assert "verify --repair --delete-share" in found.advice
        page = LedgerMetrics()
        page.take(*read_ledger(corner.use))
        (family,) = [each for each in page.collect() if each.name == "chordwise_alignment_withheld"]
        assert [sample.value for sample in family.samples] == [ORPHANS]
        assert verify(corner.tenant, None, corner.use, repair=True, delete_share=1.0).repaired == ORPHANS
        assert examine_stores.deletions(corner.use).severity is Severity.OK

    @pytest.mark.thorough
    def it_goes_on_by_itself_once_the_cause_is_gone(self, corner):
        orphan(corner, ORPHANS)
        reconcile_tenant(corner.tenant, corner.use)
        with (
            corner.use.postgres.begin() as connection
        ):  # as when the right MySQL is back, which knows nearly all of them
            few = text("DELETE FROM chunk_embeddings WHERE tenant_id = :tenant AND document_id > 'lost-2'")
            connection.execute(few, {"tenant": corner.tenant})
        reconcile_tenant(corner.tenant, corner.use)
        assert withheld(corner) == 0
        reconcile_tenant(corner.tenant, corner.use)
        corner.assert_clean()

    @pytest.mark.thorough
    def it_counts_over_all_runs_of_one_pass(self, corner):
        """A run stops after one page here; each alone would delete little."""
        shown = vectors(corner)
        for namespace in ("a", "b", "c", "d"):
            orphan(corner, DELETED_FREELY // 2)
            move = text(
                "UPDATE chunk_embeddings SET namespace = :name WHERE tenant_id = :tenant AND document_id LIKE 'lost-%'"
                " AND namespace = 'kb'"
            )
            with corner.use.postgres.begin() as connection:
                connection.execute(move, {"tenant": corner.tenant, "name": namespace})
        for _ in range(12):
            reconcile_tenant(corner.tenant, corner.use, most=1)
        assert vectors(corner) == shown + 4 * (DELETED_FREELY // 2)
        assert withheld(corner) == 4 * (DELETED_FREELY // 2)


class DescribeTheLimit:
    def it_takes_up_to_it_and_nothing_after(self):
        limit = DeletionLimit(vectors=10, rows=5)
        assert limit.take(vectors=6, rows=0)
        assert limit.take(vectors=4, rows=5)
        assert not limit.take(vectors=1, rows=0)
        assert not limit.take(vectors=0, rows=1)
        assert limit.take(vectors=0, rows=0)
        assert (limit.deleted, limit.withheld, limit.is_exceeded) == (15, 2, True)

    def it_only_counts_while_it_is_closed(self):
        limit = DeletionLimit(vectors=10, rows=5, is_open=False)
        assert not limit.take(vectors=3, rows=0)
        assert (limit.deleted, limit.withheld, limit.is_exceeded) == (0, 3, False)
