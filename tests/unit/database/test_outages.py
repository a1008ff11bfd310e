"""An outage of a store, noted once: queries do not wait for it, and it ends by itself."""

from __future__ import annotations

import threading
import time

import pytest
from sqlalchemy.exc import OperationalError

from pipeline.database.engines import Outage
from pipeline.errors import StoreUnavailable


class Store:
    """A server that hangs, refuses, or answers."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.refuses = True
        self.probes = 0

    def probe(self) -> None:
        self.probes += 1
        if self.refuses and not self.answers.is_set():
            raise OperationalError("SELECT 1", {}, Exception("refused"))
        self.answers.wait(5)


def fail(outage: Outage) -> None:
    with pytest.raises(StoreUnavailable), outage.refused():
        raise StoreUnavailable("MySQL: no answer")


def eventually_off(outage: Outage) -> bool:
    ends = time.monotonic() + 5
    while outage.is_on and time.monotonic() < ends:
        time.sleep(0.01)
    return not outage.is_on


class DescribeAnOutage:
    @pytest.mark.parametrize("refuses", [True, False], ids=["refuses", "hangs"])
    def it_refuses_calls_at_once_until_the_store_answers_a_probe(self, refuses):
        store = Store()
        store.refuses = refuses
        outage = Outage(store.probe)
        assert not outage.is_on
        fail(outage)
        time.sleep(0.1)  # a store that hangs is given a moment
        called = False
        with pytest.raises(StoreUnavailable), outage.refused():
            called = True
        assert not called
        store.answers.set()
        assert eventually_off(outage)
        with outage.refused():
            called = True
        assert called

    def it_ends_a_false_suspicion_with_the_first_probe(self):
        store = Store()
        store.answers.set()
        outage = Outage(store.probe)
        fail(outage)
        assert eventually_off(outage)
        assert store.probes == 1

    def it_asks_by_one_thread_however_many_calls_fail(self):
        store = Store()
        store.refuses = False
        outage = Outage(store.probe)
        fail(outage)
        fail(outage)
        assert store.probes == 1
        store.answers.set()
        assert eventually_off(outage)

    @pytest.mark.parametrize(("refuses", "held_up"), [(False, True), (True, False)], ids=["answers", "refuses"])
    def it_tells_a_statement_that_waits_for_a_lock_from_a_server_that_is_away(self, refuses, held_up):
        store = Store()
        store.refuses = refuses
        outage = Outage(store.probe)
        with pytest.raises(StoreUnavailable), outage.refused():
            raise StoreUnavailable("MySQL: no answer") from TimeoutError()
        time.sleep(0.05)
        store.answers.set()
        assert eventually_off(outage)
        assert outage.is_held_up == held_up
