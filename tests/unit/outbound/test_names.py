"""Look-ups that end when their time is up, and what becomes of those that do not."""

from __future__ import annotations

import threading
import time

import pytest

from pipeline.outbound.connect_client import within
from tests.support.stacks.patience import SPARE_S


class DescribeALookUp:
    def it_gives_what_was_found(self):
        assert within(lambda: ["192.0.2.1"], seconds=1) == ["192.0.2.1"]

    def it_raises_what_was_raised(self):
        def unknown():
            raise LookupError("nobody")

        with pytest.raises(LookupError, match="nobody"):
            within(unknown, seconds=1)

    def it_waits_no_longer_than_it_may(self):
        released = threading.Event()
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            within(lambda: released.wait(30), seconds=0.1)
        assert time.monotonic() - began < 0.1 + SPARE_S
        released.set()

    def it_begins_no_more_than_there_are_places_and_gives_each_back(self):
        places = threading.BoundedSemaphore(2)
        released, begun, ended = threading.Event(), [], []

        def hanging() -> None:
            begun.append(1)
            released.wait(30)
            ended.append(1)

        for _ in range(3):
            with pytest.raises(TimeoutError):
                within(hanging, seconds=0.05, places=places)
        assert len(begun) == 2
        released.set()
        assert within(lambda: "found", seconds=2, places=places) == "found"
        assert within(lambda: len(ended), seconds=2, places=places) >= 1
