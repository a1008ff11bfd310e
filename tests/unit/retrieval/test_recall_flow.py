"""One header task: whatever its channel does, it gives an envelope, in time."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable

import pytest
from tenacity import Retrying

from pipeline.channels.channel import Recalled
from pipeline.errors import ApiSourceTimedOut, Misconfigured, StoreUnavailable
from pipeline.query.plan import ChannelPlan, Plan, RetrievePlan
from pipeline.query.request import Envelope, Query
from pipeline.records import ChannelName, ChunkId, QueryId, TenantId
from pipeline.resources import Resources
from pipeline.retrieval.answer_query import answer, ask_and_report, recall
from tests.support.corpora.queries import query_of
from tests.support.stacks.patience import SPARE_S

TENANT, QUERY = TenantId("t"), QueryId("q")


class FakeChannel:
    """A channel with scripted behaviour, one entry a call."""

    name = ChannelName.KEYWORD

    def __init__(self, *behaviours: Callable[[], Recalled]) -> None:
        self._behaviours = list(behaviours)
        self.calls = 0

    def recall(self, query: Query) -> Recalled:
        self.calls += 1
        return self._behaviours[min(self.calls, len(self._behaviours)) - 1]()

    def score(self, query: Query, chunk_ids: object) -> dict[ChunkId, float]:
        return {}


def finds() -> Recalled:
    return Recalled(chunk_ids=(ChunkId("c"),), scores=(1.0,), upper_bound=2.0)


def raises(error: Exception) -> Callable[[], Recalled]:
    def fail() -> Recalled:
        raise error

    return fail


def open_query(use: Resources, *, retry: int = 1, timeout_ms: int = 200, deadline_s: float = 3.0) -> None:
    use.queries(TENANT).open(
        query_of(
            query_id=QUERY,
            tenant_id=TENANT,
            plan=Plan(retrieve=RetrievePlan(channels={"keyword": ChannelPlan(retry=retry, timeout_ms=timeout_ms)})),
            deadline_s=deadline_s,
        )
    )


def heard_of(channel: FakeChannel, use: Resources) -> Envelope:
    """Return the envelope that a header reports."""
    query = use.queries(TENANT).load(QUERY)
    assert query is not None
    return ask_and_report(query, channel, use).envelope


class DescribeAHeaderTask:
    @pytest.mark.parametrize(
        ("behaviours", "retry", "status", "code", "calls"),
        [
            ([finds], 1, "ok", None, 1),
            ([raises(StoreUnavailable("away")), finds], 1, "ok", None, 2),
            ([raises(StoreUnavailable("away"))], 1, "failed", "store_unavailable", 2),
            ([raises(StoreUnavailable("away"))], 0, "failed", "store_unavailable", 1),
            ([raises(ApiSourceTimedOut("silent"))], 0, "timeout", "api_source_unavailable", 1),
            ([raises(Misconfigured("no table"))], 3, "failed", "misconfigured", 1),
            ([raises(KeyError("a bug"))], 3, "failed", "internal_error", 1),
        ],
    )
    def it_says_what_became_of_its_channel(self, use, behaviours, retry, status, code, calls):
        open_query(use, retry=retry)
        channel = FakeChannel(*behaviours)
        envelope = heard_of(channel, use)
        assert (envelope.status, envelope.code, channel.calls) == (status, code, calls)
        assert use.queries(TENANT).state(QUERY).envelopes == (envelope,)

    @pytest.mark.parametrize("ends", [True, False])
    def it_leaves_a_channel_alone_that_a_worker_began_after_it_was_sent_again(self, use, ends):
        """Two copies of each header are sent again, and the first one may be late as well."""
        open_query(use)
        sent_at = time.time() - 0.01
        if ends:
            recall(TENANT, QUERY, FakeChannel(finds), use, worker="first", again_since=sent_at)
        else:
            use.queries(TENANT).load(QUERY, begins=ChannelName.KEYWORD, worker="first")
        second = FakeChannel(finds)
        assert recall(TENANT, QUERY, second, use, worker="second", again_since=sent_at) is None
        assert second.calls == 0
        assert use.queries(TENANT).state(QUERY).ran[ChannelName.KEYWORD].worker == "first"

    def it_asks_a_channel_that_no_worker_began_before_it_was_sent_again(self, use):
        open_query(use)
        channel = FakeChannel(finds)
        assert recall(TENANT, QUERY, channel, use, worker="second", again_since=time.time()) is not None
        assert channel.calls == 1

    def it_asks_a_channel_once_more_whose_worker_hangs(self, use):
        open_query(use)
        use.queries(TENANT).load(QUERY, begins=ChannelName.KEYWORD, worker="frozen")
        sent_at = time.time() + 0.01
        channel = FakeChannel(finds)
        assert recall(TENANT, QUERY, channel, use, worker="second", again_since=sent_at) is not None
        assert channel.calls == 1
        assert use.queries(TENANT).state(QUERY).ran[ChannelName.KEYWORD].worker == "second"

    def it_does_not_wait_for_a_channel_that_hangs(self, use):
        open_query(use, timeout_ms=100)
        let_go = threading.Event()
        started = time.monotonic()
        envelope = heard_of(FakeChannel(lambda: let_go.wait(30) and finds()), use)
        let_go.set()
        assert envelope.status == "timeout"
        assert time.monotonic() - started < 0.1 + SPARE_S

    def it_takes_no_longer_for_all_its_tries_together(self, use):
        """A store that hangs is given up by its client just before the channel is: there is no time for another try."""

        def hangs() -> Recalled:
            time.sleep(0.19)
            raise StoreUnavailable("read timed out")

        open_query(use, retry=3, timeout_ms=200)
        channel = FakeChannel(hangs)
        assert heard_of(channel, use).status in ("failed", "timeout")
        assert channel.calls <= 2

    def it_does_not_start_what_cannot_end_in_time(self, use):
        open_query(use, deadline_s=-1.0)
        channel = FakeChannel(finds)
        assert heard_of(channel, use).code == "timeout"
        assert channel.calls == 0

    def it_leaves_a_query_alone_that_is_gone_or_answered(self, use):
        channel = FakeChannel(finds)
        assert recall(TENANT, QUERY, channel, use) is None
        open_query(use)
        use.queries(TENANT).answer(use.queries(TENANT).stored(QUERY), b"{}")
        assert recall(TENANT, QUERY, channel, use) is None
        assert channel.calls == 0

    def it_tells_the_last_of_a_query(self, use):
        open_query(use)
        state = recall(TENANT, QUERY, FakeChannel(raises(KeyError("a bug"))), use)
        assert state == use.queries(TENANT).state(QUERY), "the callback need not read it"

    def it_reports_again_while_redis_is_away(self, use):
        open_query(use)
        pool = use.redis.connection_pool
        connection = pool.get_connection()
        server = connection._server
        pool.release(connection)

        def breaks() -> Recalled:
            server.connected = False
            threading.Timer(0.3, setattr, (server, "connected", True)).start()
            return finds()

        state = recall(TENANT, QUERY, FakeChannel(breaks), use)
        assert [envelope.status for envelope in state.envelopes] == ["ok"]

    def it_has_its_answer_stored_once_redis_is_back(self, use):
        """As a server that is elected a second after the last one was lost."""
        open_query(use)
        state = recall(TENANT, QUERY, FakeChannel(raises(KeyError("a bug"))), use)
        pool = use.redis.connection_pool
        connection = pool.get_connection()
        server = connection._server
        pool.release(connection)
        server.connected = False
        threading.Timer(0.3, setattr, (server, "connected", True)).start()
        assert answer(TENANT, QUERY, use, {}, known=state)
        assert use.queries(TENANT).state(QUERY).status == "failed"

    def it_leaves_no_attempts_to_the_garbage_collector(self, use):
        open_query(use)
        query = use.queries(TENANT).load(QUERY)
        ask_and_report(query, FakeChannel(finds), use)
        gc.collect()
        gc.disable()
        try:
            ask_and_report(query, FakeChannel(finds), use)
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            left = [each for each in gc.garbage if isinstance(each, Retrying)]  # other threads leave objects as well
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
        assert not left

    def it_gives_the_same_envelope_when_it_runs_twice(self, use):
        open_query(use)
        first = heard_of(FakeChannel(finds), use)
        assert heard_of(FakeChannel(finds), use) == first
        assert len(use.queries(TENANT).state(QUERY).envelopes) == 1


@pytest.mark.apart
class DescribeACircuit:
    def it_answers_at_once_for_a_channel_that_kept_failing(self, use):
        open_query(use, retry=0, deadline_s=600.0)
        channel = FakeChannel(raises(StoreUnavailable("away")))
        for _ in range(use.settings.breaker_failures):
            assert heard_of(channel, use).code == "store_unavailable"
        envelope = heard_of(channel, use)
        assert (envelope.status, envelope.code) == ("failed", "circuit_open")
        assert channel.calls == use.settings.breaker_failures

    @pytest.mark.parametrize("error", [Misconfigured("no table"), KeyError("a bug")])
    def it_stays_closed_for_errors_that_waiting_does_not_mend(self, use, error):
        open_query(use, retry=0, deadline_s=600.0)
        channel = FakeChannel(raises(error))
        for _ in range(2 * use.settings.breaker_failures):
            heard_of(channel, use)
        assert channel.calls == 2 * use.settings.breaker_failures

    def it_does_not_count_timeouts_of_queries_that_came_too_late(self, use):
        channel = FakeChannel(lambda: time.sleep(0.4) or finds())
        for _ in range(2 * use.settings.breaker_failures):
            open_query(use, timeout_ms=200, deadline_s=0.11)
            assert heard_of(channel, use).status == "timeout"
        assert use.breakers.circuits() == {}
