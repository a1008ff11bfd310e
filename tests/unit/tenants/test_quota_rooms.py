"""A process's cached counts of tenants that are far from their quotas."""

from __future__ import annotations

import pytest

from pipeline.records import TenantId
from pipeline.tenants.quota_store import HEADROOM, QuotaLimits, QuotaRooms

ACME, OTHER = TenantId("acme"), TenantId("other")
LIMITS = QuotaLimits(documents=1_000_000)


class Clock:
    """A clock that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def rooms(clock) -> QuotaRooms:
    made = QuotaRooms(clock=clock)
    made.store(ACME, LIMITS, HEADROOM + 100)
    return made


class DescribeRooms:
    def it_admits_what_is_known_to_fit_and_counts_it(self, rooms):
        assert [rooms.take(ACME, LIMITS, 40) for _ in range(3)] == [True, True, False]

    def it_knows_nothing_of_others_or_of_other_limits(self, rooms):
        assert not rooms.take(OTHER, LIMITS, 1)
        assert not rooms.take(ACME, QuotaLimits(documents=10), 1)

    def it_counts_again_after_a_while(self, rooms, clock):
        clock.now = 31.0
        assert not rooms.take(ACME, LIMITS, 1)

    def it_remembers_nobody_who_is_near_a_limit(self, rooms):
        rooms.store(ACME, LIMITS, HEADROOM)
        assert not rooms.take(ACME, LIMITS, 1)
