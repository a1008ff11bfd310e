"""A lease in the memory of a worker; what it writes is tested on MySQL in `tests/integration/jobs/test_leases.py`."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from sqlalchemy import create_engine

from pipeline.errors import LeaseLost, StoreUnavailable
from pipeline.ingestion.claimed_items import Lease
from pipeline.jobs.ledger_store import ItemClaim
from pipeline.records import DocumentId, Generation, JobId, Namespace, Scope, TenantId

TENANT = TenantId("acme")
SOON_S = 5.0


def claim(ordinal: int) -> ItemClaim:
    scope = Scope(tenant_id=TENANT, namespace=Namespace("kb"))
    generation = Generation(scope=scope, document_id=DocumentId(f"d{ordinal}"), number=1)
    return ItemClaim(job_id=JobId("j"), ordinal=ordinal, generation=generation, fencing_token=1, attempts=1)


class WatchedLease(Lease):
    """A lease whose renewals are counted and do what a test says, instead of asking MySQL."""

    def __init__(self, *claims: ItemClaim, renewal: Callable[[], None] = lambda: None) -> None:
        super().__init__(create_engine("sqlite://"), TENANT, claims, lease_s=0.06)
        self.renewed = 0
        self._renewal = renewal

    def renew(self) -> None:
        self.renewed += 1
        self._renewal()


class DescribeClaims:
    def it_keeps_their_order_and_lets_go_of_those_that_ended(self):
        lease = WatchedLease(*map(claim, (2, 0, 1)))
        lease.release([claim(0), claim(7)])
        assert lease.claims == [claim(2), claim(1)]
        assert lease.job_id == "j"


class DescribeRenewingDuringACall:
    @pytest.mark.parametrize("renewal", [lambda: None, lambda: _raise(StoreUnavailable("away"))])
    def it_renews_until_the_call_returns(self, renewal):
        lease = WatchedLease(claim(0), renewal=renewal)

        def call(stop: threading.Event) -> int:
            while lease.renewed < 3:
                assert not stop.wait(0.001)
            return 7

        assert lease.renew_during(call) == 7
        assert lease.renewed >= 3

    @pytest.mark.parametrize("error", [TimeoutError("its own"), ValueError("bad")])
    def it_raises_as_the_call_does(self, error):
        with pytest.raises(type(error), match=str(error)):
            WatchedLease(claim(0)).renew_during(lambda _: _raise(error))

    def it_stops_the_call_once_the_lease_is_lost(self):
        lease = WatchedLease(claim(0), renewal=lambda: _raise(LeaseLost("taken")))
        stopped = threading.Event()

        def call(stop: threading.Event) -> None:
            if stop.wait(SOON_S):
                stopped.set()

        with pytest.raises(LeaseLost):
            lease.renew_during(call)
        assert stopped.wait(SOON_S)


class DescribeRenewingWhenDue:
    def it_renews_after_a_sixth_of_the_lease(self):
        lease = WatchedLease(claim(0))
        assert not lease.renew_if_due()
        threading.Event().wait(0.02)
        assert lease.renew_if_due()
        assert lease.renewed == 1


def _raise(error: Exception) -> None:
    raise error
