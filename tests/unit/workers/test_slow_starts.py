"""Processes that start slowly on a busy host are waited for: a replacement would start as slowly."""

import pytest

from pipeline.sandbox.process import ParserProcess
from workers import app as workers_app


class DescribeSlowStarts:
    def it_waits_for_the_child_of_a_worker_for_longer_than_its_warm_up_may_take(self):
        limit = workers_app.app.conf.worker_proc_alive_timeout
        assert limit >= 60
        assert limit >= 4 * workers_app._WARM_UP_S

    def it_renews_the_lease_while_a_parser_starts_which_goes_on_if_the_lease_is_lost(self):
        calls = []

        def lose() -> None:
            calls.append(1)
            raise LookupError

        process = ParserProcess(memory_bytes=2**30, parsing_s=5, cutting_s=5)
        with pytest.raises(LookupError):
            process.wait_until_ready(lose)
        assert calls == [1]
        process.wait_until_ready()  # it goes on starting, and serves the next document
        process.end()
