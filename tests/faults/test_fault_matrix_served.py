"""Cells of the fault matrix (test_fault_matrix.py) with everything real: gateway, broker, chord, and workers that are
killed; at fault are the services that they ask. The other cells of services, which go the same way from the worker on,
stand in the matrix; a worker killed while it asks the language model, in test_lost_understanding.py."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from pipeline.database.worker_heartbeats import EXPIRES_S
from tests.faults.test_fault_matrix import LATE_S, NO_TIME_FOR, TABLE
from tests.support.stacks.fault_edges import Fault
from tests.support.stacks.fault_lab import CHANNELS, NAMESPACES, in_two_tries
from tests.support.stacks.fault_stack import DEADLINE_S, RECALL, REST, FaultStack, fault_stack

ONE, THREE = NAMESPACES[:1], NAMESPACES
CELLS = [
    ("api", "hang", THREE),
    ("expand", "hang", ONE),
    ("rerank", "hang", THREE),
    ("rerank", "bug", ONE),
    *(
        pytest.param(*cell, marks=pytest.mark.thorough)
        for cell in (("api", "exception", ONE), ("expand", "empty", THREE), ("rerank", "slow", THREE))
    ),
]


@pytest.fixture(scope="module")
def stack(use_alone, tmp_path_factory) -> Iterator[FaultStack]:
    with fault_stack(use_alone.settings, tmp_path_factory.mktemp("matrix")) as found:
        _settle(found)
        yield found


def _question(namespaces: tuple[str, ...], part: str | None = None) -> dict[str, Any]:
    own = {name: 400 if name == part else 1200 for name in (*CHANNELS, "rerank")}
    return {
        "query_text": f"How do I reset the router? {uuid.uuid4().hex[:6]}",
        "namespaces": list(namespaces),
        "top_k": 30,
        "retrieve": {"channels": {name: {"timeout_ms": own[name], "retry": 0} for name in CHANNELS}},
        "rerank": {"budget_ms": own["rerank"]},
        "understand": {"budget_ms": 400 if part == "expand" else 700},
    }


def _ask(stack: FaultStack, body: dict[str, Any]) -> tuple[dict[str, Any], float]:
    started = time.monotonic()
    response = stack.client.post("/v1/rag/query", json=body)
    took_s = time.monotonic() - started
    assert response.status_code == 200, response.text
    return response.json(), took_s


def _lost(answer: dict[str, Any]) -> set[tuple[str, str]]:
    return {(each["part"], each["code"]) for each in answer["stats"]["degradations"]}


def _channels(answer: dict[str, Any]) -> set[str]:
    return {source["channel"] for chunk in answer["chunks"] for source in chunk["sources"] if source["rank"]}


def _await_channels(stack: FaultStack, location: str, channels: set[str]) -> None:
    """Wait until these channels have answered a query, or the query has."""
    with stack.client.stream("GET", f"{location}/events") as events:
        for line in events.iter_lines():
            channels = {name for name in channels if f'"channel":"{name}"' not in line.replace(" ", "")}
            if not channels:
                return


def _settle(stack: FaultStack) -> None:
    """Everything runs and is loaded, and nothing of the last test is left."""
    stack.let()
    stack.start_again()
    ends = time.monotonic() + 20
    while time.monotonic() < ends:
        answer, _ = _ask(stack, _question(THREE))
        if not _lost(answer):
            return
    raise AssertionError(f"queries lose something although nothing is at fault: {_lost(answer)}")


@pytest.mark.thorough
class DescribeServices:
    @pytest.mark.parametrize(("part", "fault", "namespaces"), CELLS)
    def it_answers_in_time_and_names_what_is_lost(self, stack, part: str, fault: Fault, namespaces):
        codes = TABLE[part][fault]

        def run() -> None:
            _settle(stack)
            stack.let(part, fault)
            answer, took_s = _ask(stack, _question(namespaces, part))
            assert took_s <= DEADLINE_S + LATE_S
            assert {name for name, _ in _lost(answer)} == ({part} if codes else set())
            assert {code for _, code in _lost(answer)} <= set(codes or ())
            gone = {part} if codes or fault == "empty" else set()
            assert _channels(answer) == set(CHANNELS) - gone
            assert {chunk["namespace"] for chunk in answer["chunks"]} == set(namespaces)

        in_two_tries(run)


@pytest.mark.thorough
class DescribeKilledWorkers:
    @pytest.mark.parametrize(
        ("part", "queues", "namespaces", "code", "deadline_s"),
        [
            pytest.param("api", RECALL, ONE, "no_answer", DEADLINE_S, id="api"),
            # The other worker composes the answer once the heartbeat of this one has expired.
            pytest.param("rerank", REST, THREE, "timeout", EXPIRES_S + 1.5, id="rerank", marks=pytest.mark.thorough),
        ],
    )
    def it_answers_at_the_deadline_without_what_was_under_way(self, stack, part, queues, namespaces, code, deadline_s):
        """The worker of the part is killed while the service keeps it waiting; the gateway answers from the rest."""

        def run() -> None:
            _settle(stack)
            stack.let(part, "hang")
            seen, started = stack.under_way(part), time.monotonic()
            body = _question(namespaces) | {"deadline_ms": int(deadline_s * 1000)}
            accepted = stack.client.post("/v1/queries", json=body)
            assert accepted.status_code == 202
            while stack.under_way(part) == seen and time.monotonic() - started < 1.0:
                time.sleep(0.01)
            _await_channels(stack, accepted.headers["Location"], set(CHANNELS) - {part})
            stack.kill(queues)
            answer = stack.client.get(accepted.headers["Location"], params={"wait": 10}).json()
            took_s = time.monotonic() - started
            assert took_s <= deadline_s + LATE_S
            assert answer["status"] == "succeeded"
            assert (part, code) in _lost(answer)
            assert _lost(answer) - {(part, code)} <= NO_TIME_FOR
            assert _channels(answer) == set(CHANNELS) - {part}
            assert {chunk["namespace"] for chunk in answer["chunks"]} == set(namespaces)

        in_two_tries(run)
