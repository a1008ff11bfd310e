"""Log lines: one JSON object each, ours and those of libraries, whatever is in them."""

from __future__ import annotations

import io
import json
import logging
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from pipeline.telemetry.logs import configure_logging
from tests.support.stacks.log_lines import log_lines


@pytest.fixture
def written() -> Iterator[io.BytesIO]:
    with log_lines("INFO") as lines:
        yield lines


def told(written: io.BytesIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written.getvalue().splitlines()]


class DescribeALine:
    def it_says_what_where_when_and_for_whom(self, written):
        with structlog.contextvars.bound_contextvars(tenant_id="t"):
            structlog.get_logger("a.module").info("it_happened", hits={"keyword": 2})
        (line,) = told(written)
        assert line.pop("timestamp").endswith("Z")
        assert line == {
            "event": "it_happened",
            "hits": {"keyword": 2},
            "tenant_id": "t",
            "level": "info",
            "logger": "a.module",
            "service": "test",
        }

    def it_is_of_the_same_make_when_a_library_says_it(self, written):
        with structlog.contextvars.bound_contextvars(tenant_id="t"):
            logging.getLogger("another.module").warning("slow: %s", "é")
        (line,) = told(written)
        assert (line["event"], line["level"], line["logger"], line["tenant_id"], line["service"]) == (
            "slow: é",
            "warning",
            "another.module",
            "t",
            "test",
        )

    def it_has_the_traceback_of_an_error_in_one_line(self, written):
        try:
            raise RuntimeError("no")
        except RuntimeError:
            structlog.get_logger("a").exception("bug")
            logging.getLogger("b").exception("bug")
        assert ["RuntimeError: no" in line["exception"] for line in told(written)] == [True, True]

    def it_is_left_out_below_the_level(self, written):
        structlog.get_logger("a").debug("small")
        logging.getLogger("b").debug("small")
        logging.getLogger("httpx").info("a request")
        assert told(written) == []

    @pytest.mark.parametrize("value", [2**80, "half \ud800 of one", float("nan"), {1: "one"}, ValueError("x"), object])
    def it_is_written_whatever_it_holds(self, written, value):
        structlog.get_logger("a").info("odd", value=value)
        logging.getLogger("b").info("odd %s", value)
        assert [line["level"] for line in told(written)] == ["info", "info"]

    def it_is_lost_and_nothing_else_where_nobody_reads_standard_error(self, monkeypatch, written):
        reading, writing = os.pipe()
        os.close(reading)
        monkeypatch.setattr(sys, "stderr", os.fdopen(writing, "w"))
        configure_logging("INFO", service="test")
        structlog.configure(cache_logger_on_first_use=False)
        structlog.get_logger("a").info("unheard")
        logging.getLogger("b").info("unheard")
        sys.stderr.close()
