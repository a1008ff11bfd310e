"""Sending a query while nobody listens where the broker was: it ends with an error, in time."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

# The address of the broker is a process's own, once it has sent a message.
SEND = """
from uuid import uuid4
from pipeline.errors import StoreUnavailable
from pipeline.query.plan import ChannelPlan, Plan, RetrievePlan
from tests.support.corpora.queries import query_of
from workers import dispatch

plan = Plan(retrieve=RetrievePlan(channels={"keyword": ChannelPlan(), "semantic": ChannelPlan()}))
try:
    dispatch.ask(query_of("a pump", query_id=str(uuid4()), plan=plan))
except StoreUnavailable as error:
    print(error)
"""


def _closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class DescribeAQuery:
    @pytest.mark.parametrize("scheme", ["redis", "amqp"])
    def it_is_refused_in_some_seconds(self, scheme):
        """It went on for ever, on one processor, where the broker's error was among its own causes."""
        environment = os.environ | {"CHORDWISE_BROKER_URL": f"{scheme}://127.0.0.1:{_closed_port()}//"}
        done = subprocess.run(
            [sys.executable, "-c", SEND], capture_output=True, text=True, timeout=30, env=environment, check=False
        )
        assert done.stdout.startswith("the broker did not accept the query: "), done.stderr
