"""Circuits on the real Redis: shared by processes, kept apart by tenants, and of no cost to who is well."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest
import redis
from structlog.testing import capture_logs

from pipeline.channels import circuit_breaker_store as stores
from pipeline.channels.circuit_breaker_store import BreakerLimits, Breakers
from pipeline.database.engines import redis_client
from pipeline.records import ChannelName, TenantId
from pipeline.resources import Resources

LIMITS = BreakerLimits(failures=3, open_s=10.0)
API, SEMANTIC, KEYWORD = ChannelName.API, ChannelName.SEMANTIC, ChannelName.KEYWORD
ANN, BOB = TenantId("ann"), TenantId("bob")


class Fleet:
    """Processes of one installation with a clock of their own; their circuits are in a hash nobody else uses."""

    def __init__(self, client: redis.Redis) -> None:
        self.client = client
        self.now = 1_000_000.0

    def process(self) -> Breakers:
        return Breakers(self.client, LIMITS, clock=lambda: self.now)


@pytest.fixture
def fleet(settings, monkeypatch) -> Iterator[Fleet]:
    name = f"test:circuits:{uuid.uuid4().hex}"
    monkeypatch.setattr(stores, "CIRCUITS", name)
    monkeypatch.setattr(stores, "OPENED", f"{name}:opened")
    client = redis_client(settings)
    yield Fleet(client)
    client.delete(name, f"{name}:opened")
    client.close()


def call(process: Breakers, channel: ChannelName, tenant_id: TenantId, *, fails: bool) -> bool:
    """False if the call was not let through."""
    ticket = process.enter(channel, tenant_id, source="crm" if channel == API else None)
    if ticket is not None:
        process.leave(ticket, failed=fails)
    return ticket is not None


def break_it(process: Breakers, channel: ChannelName, tenant_id: TenantId) -> None:
    for _ in range(LIMITS.failures):
        assert call(process, channel, tenant_id, fails=True)


class DescribeSharedCircuits:
    def it_opens_for_every_process(self, fleet):
        one, other = fleet.process(), fleet.process()
        assert call(one, SEMANTIC, ANN, fails=True)
        assert call(other, SEMANTIC, ANN, fails=True)
        assert call(one, SEMANTIC, ANN, fails=True)
        assert not call(one, SEMANTIC, ANN, fails=True)
        fleet.now += 1.1  # by then every process has read it
        assert not call(other, SEMANTIC, ANN, fails=True)

    def it_lets_one_process_try_and_closes_for_all(self, fleet):
        one, other = fleet.process(), fleet.process()
        break_it(one, KEYWORD, ANN)
        fleet.now += 10.5
        ticket = one.enter(KEYWORD, ANN)
        assert ticket is not None
        assert other.enter(KEYWORD, ANN) is None
        one.leave(ticket, failed=False)
        fleet.now += 1.1
        assert call(other, KEYWORD, ANN, fails=False)
        assert other.circuits() == {}

    def it_stays_open_when_the_probe_fails_and_replaces_one_that_died(self, fleet):
        one, other = fleet.process(), fleet.process()
        break_it(one, KEYWORD, ANN)
        fleet.now += 10.5
        assert call(one, KEYWORD, ANN, fails=True)
        assert not call(one, KEYWORD, ANN, fails=True)
        fleet.now += 10.5
        assert one.enter(KEYWORD, ANN) is not None  # and never comes back
        fleet.now += 9.0
        assert other.enter(KEYWORD, ANN) is None
        fleet.now += 1.5
        assert other.enter(KEYWORD, ANN) is not None

    def it_is_named_while_it_refuses_everybody_and_not_once_its_pause_is_over(self, fleet):
        one = fleet.process()
        for tenant_id in (ANN, BOB, ANN):
            assert call(one, SEMANTIC, tenant_id, fails=True)
        assert (one.open_to_all(), one.open_parts()) == (["semantic"], {"semantic": 1})
        fleet.now += LIMITS.open_s + 0.5
        assert (one.open_to_all(), one.open_parts()) == ([], {})
        assert call(one, SEMANTIC, ANN, fails=True)  # the probe
        assert one.open_to_all() == ["semantic"]

    def it_counts_only_failures_in_a_row(self, fleet):
        one = fleet.process()
        for _ in range(5):
            assert call(one, SEMANTIC, ANN, fails=True)
            assert call(one, SEMANTIC, ANN, fails=True)
            assert call(one, SEMANTIC, ANN, fails=False)
        assert one.circuits() == {}


class DescribeTenants:
    @pytest.mark.parametrize("channel", [API, SEMANTIC, KEYWORD])
    def it_closes_nothing_to_others_for_one_tenants_trouble(self, fleet, channel):
        one = fleet.process()
        break_it(one, channel, ANN)
        fleet.now += 1.1
        assert not call(one, channel, ANN, fails=True)
        for _ in range(2):
            assert call(one, channel, BOB, fails=False)

    def it_opens_a_shared_store_for_all_when_several_tenants_fail(self, fleet):
        one = fleet.process()
        for tenant_id in (ANN, BOB, TenantId("cem")):
            assert call(one, SEMANTIC, tenant_id, fails=True)
        assert not call(one, SEMANTIC, TenantId("dora"), fails=True)
        assert call(one, KEYWORD, TenantId("dora"), fails=False)

    def it_never_opens_a_tenants_own_dependency_for_all(self, fleet):
        one = fleet.process()
        for tenant_id in (ANN, BOB, TenantId("cem")):
            break_it(one, API, tenant_id)
        assert call(one, API, TenantId("dora"), fails=False)


class DescribeSources:
    def it_keeps_a_healthy_source_open_beside_one_that_fails(self, fleet):
        one, other = fleet.process(), fleet.process()
        for _ in range(2 * LIMITS.failures):
            ticket = one.enter(API, ANN, source="slow")
            if ticket is not None:
                one.leave(ticket, failed=True)
        fleet.now += 1.1
        for process in (one, other):
            assert process.enter(API, ANN, source="slow") is None
            assert process.enter(API, ANN, source="healthy") is not None
            assert process.enter(API, BOB, source="slow") is not None
            assert process.enter(API, ANN) is not None, "the channel itself is never refused"

    def it_counts_under_the_name_of_the_channel_alone(self, fleet):
        break_it(fleet.process(), API, ANN)
        assert fleet.process().opened() == {"api": 1}


class DescribeCost:
    def it_asks_redis_once_a_second_and_writes_nothing_while_all_is_well(self, fleet):
        one = fleet.process()
        call(one, SEMANTIC, ANN, fails=False)
        before = fleet.client.info("commandstats")
        for _ in range(50):
            assert call(one, SEMANTIC, ANN, fails=False)
        fleet.now += 1.1
        for _ in range(50):
            assert call(one, SEMANTIC, BOB, fails=False)
        assert fleet.client.exists(stores.CIRCUITS) == 0
        read = _calls(fleet.client.info("commandstats"), "hgetall") - _calls(before, "hgetall")
        assert read <= 5  # ours is one of them; the server is shared


def _calls(statistics: dict[str, dict[str, int]], command: str) -> int:
    return statistics.get(f"cmdstat_{command}", {}).get("calls", 0)


class DescribeWithoutRedis:
    def it_goes_by_what_the_process_sees_itself(self):
        now = [1000.0]
        nowhere = redis.Redis(host="127.0.0.1", port=1, socket_connect_timeout=0.2)
        alone = Breakers(nowhere, LIMITS, clock=lambda: now[0])
        break_it(alone, SEMANTIC, ANN)
        assert not call(alone, SEMANTIC, ANN, fails=True)
        assert call(alone, SEMANTIC, BOB, fails=False)
        now[0] += 10.5
        assert call(alone, SEMANTIC, ANN, fails=False)
        assert call(alone, SEMANTIC, ANN, fails=False)


class DescribeAlerts:
    def it_tells_of_every_change_once_and_counts_what_opened(self, fleet):
        one, other = fleet.process(), fleet.process()
        with capture_logs() as told:
            break_it(one, SEMANTIC, ANN)
            fleet.now += 10.5
            call(other, SEMANTIC, ANN, fails=False)
        events = [(each["event"], each["channel"]) for each in told]
        assert events == [
            ("circuit_opened", "semantic"),
            ("circuit_probed", "semantic"),
            ("circuit_closed", "semantic"),
        ]
        assert told[0]["alert"] is True
        assert "ann" not in told[0]["circuit_of"]
        assert one.opened() == {"semantic": 1}


@pytest.mark.thorough
class DescribeTwoProcesses:
    def it_shares_circuits_with_a_process_of_its_own(self, settings):
        """Nothing is patched here: the other process uses the settings of the stack."""
        tenant_id = f"test-{uuid.uuid4().hex[:12]}"
        script = (
            "import sys; from pipeline.resources import Resources; from pipeline.settings import load\n"
            "from pipeline.records import ChannelName\n"
            "use = Resources(load())\n"
            "for _ in range(use.settings.breaker_failures):\n"
            "    use.breakers.leave(use.breakers.enter(ChannelName.API, sys.argv[1], source='crm'), failed=True)\n"
        )
        subprocess.run([sys.executable, "-c", script, tenant_id], check=True, timeout=60)
        use = Resources(settings)
        try:
            assert use.breakers.enter(ChannelName.API, TenantId(tenant_id), source="crm") is None
            assert use.breakers.enter(ChannelName.API, TenantId(f"{tenant_id}-x"), source="crm") is not None
        finally:
            name = next(iter(use.breakers.circuits()))
            use.redis.hdel(stores.CIRCUITS, name)
            use.close()
