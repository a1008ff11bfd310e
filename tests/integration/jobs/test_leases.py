"""A lease on MySQL: what its transactions hold, and what a renewal writes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pytest
from sqlalchemy import text

from pipeline.database.rows import now
from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import LeaseLost
from pipeline.ingestion.accept import Batch, accept
from pipeline.ingestion.claimed_items import Lease
from pipeline.ingestion.run import take
from pipeline.jobs.ledger_store import ItemClaim
from pipeline.records import DocumentFields, DocumentId, Stage, TenantId, Upload
from pipeline.resources import Resources

LEASE_S = 30.0


@dataclass(frozen=True)
class Corner:
    """The stores, and the tenant whose items a test looks at."""

    use: Resources
    tenant: TenantId


@pytest.fixture
def corner(use_alone, tenant) -> Corner:
    return Corner(use_alone, tenant)


@pytest.fixture
def claims(corner, namespace) -> tuple[ItemClaim, ...]:
    uploads = tuple(
        Upload(document_id=DocumentId(name), fields=DocumentFields(), body=b"An owl.", media_type="text/plain")
        for name in "abc"
    )
    batch = Batch(tenant_id=corner.tenant, namespace=namespace, request_id="r", entries=uploads, on_conflict="replace")
    taken = take(corner.tenant, accept(batch, corner.use, notify=lambda ticket: None).job_id, corner.use)
    assert taken is not None
    return taken.items


@pytest.fixture
def lease(corner, claims) -> Lease:
    return Lease(corner.use.mysql, corner.tenant, claims, lease_s=LEASE_S)


def items(corner: Corner) -> list[tuple[str, bool]]:
    """The stage of each item, and whether its lease runs for more than half of its time."""
    with unit_of_work(corner.use.mysql) as work:
        rows = work.connection.execute(
            text("SELECT stage, lease_until FROM job_items WHERE tenant_id = :tenant ORDER BY ordinal"),
            {"tenant": corner.tenant},
        )
        return [(stage, until > now() + timedelta(seconds=LEASE_S / 2)) for stage, until in rows]


def execute(corner: Corner, statement: str) -> None:
    with unit_of_work(corner.use.mysql) as work:
        work.connection.execute(text(statement), {"tenant": corner.tenant})


def run_out(corner: Corner) -> None:
    execute(corner, "UPDATE job_items SET lease_until = '2000-01-01' WHERE tenant_id = :tenant")


def take_over(corner: Corner, ordinal: int) -> None:
    token = "fencing_token = fencing_token + 1"
    execute(corner, f"UPDATE job_items SET {token} WHERE tenant_id = :tenant AND ordinal = {ordinal}")


class DescribeRenewing:
    def it_writes_the_stage_of_each_item_and_a_new_end(self, corner, claims, lease):
        run_out(corner)
        lease.reach(Stage.PARSED, claims[:1])
        lease.renew()
        assert items(corner) == [("parse", True), ("accepted", True), ("accepted", True)]

    def it_leaves_items_alone_that_were_released(self, corner, claims, lease):
        run_out(corner)
        lease.release(claims[2:])
        lease.renew()
        assert items(corner) == [("accepted", True), ("accepted", True), ("accepted", False)]

    def it_writes_nothing_once_an_item_is_lost(self, corner, lease):
        run_out(corner)
        take_over(corner, 1)
        with pytest.raises(LeaseLost):
            lease.renew()
        assert items(corner) == [("accepted", False)] * 3

    def it_can_go_on_with_the_rest(self, corner, claims, lease):
        run_out(corner)
        take_over(corner, 1)
        assert lease.renew_rest() == [claims[1]]
        assert lease.claims == [claims[0], claims[2]]
        assert items(corner) == [("accepted", True), ("accepted", False), ("accepted", True)]
        lease.renew()


class DescribeHolding:
    def it_advances_in_the_transaction_that_writes(self, corner, lease):
        run_out(corner)
        with lease.held() as (_, ledger):
            lease.advance(ledger, Stage.CHUNKED)
        assert items(corner) == [("chunk", True)] * 3

    def it_opens_no_transaction_for_lost_items(self, corner, claims, lease):
        take_over(corner, 0)
        with pytest.raises(LeaseLost), lease.held():
            pytest.fail("the block ran")
        with lease.held(claims[1:]):
            pass
