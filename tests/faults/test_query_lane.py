"""The in-process lane while something is away: the broker and the workers, a store, and its own processes."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import orjson
import pytest

from tests.support.stacks.fault_lab import in_two_tries
from tests.support.stacks.outage_stack import DEADLINE_S, NAMESPACE, OutageStack, Part, outage_stack

pytestmark = pytest.mark.thorough  # a stack of six processes for one setting

LATE_S = 0.25
QUESTIONS = {"photovoltaic panels": "solar", "绿茶用多少度的水": "tea"}
PROCESSES = 2


@pytest.fixture(scope="module")
def stack(settings, tmp_path_factory) -> Iterator[OutageStack]:
    logs = tmp_path_factory.mktemp("lane")
    with outage_stack(settings, logs, CHORDWISE_QUERY_LANE="in_process") as found:
        _ready(found)
        yield found


@pytest.fixture(autouse=True)
def _healed(stack) -> Iterator[None]:
    yield
    stack.heal()
    _ready(stack)


def _ready(stack: OutageStack, *, but: frozenset[int] = frozenset()) -> frozenset[int]:
    """Wait until the lane is whole, without the processes of ``but``, and return its processes' ids."""
    ends = time.monotonic() + 60
    while time.monotonic() < ends:
        check = stack.client.get("/readyz").json()["dependencies"].get("query_lane", {})
        if check.get("workers") == PROCESSES and not (pids := stack.lane_processes()) & but:
            return pids
        time.sleep(0.1)
    raise AssertionError(f"the lane is not ready: {check}")


def _ask(stack: OutageStack, question: str, **more: Any) -> tuple[dict[str, Any], float]:
    """Return the answer with its trace, and how long it took. No cache knows the question."""
    body = {"query_text": f"{question} {uuid.uuid4().hex[:8]}", "namespaces": [NAMESPACE], "trace": True, **more}
    began = time.monotonic()
    response = stack.client.post("/v1/rag/debug", json=body)
    took_s = time.monotonic() - began
    assert response.status_code == 200, response.text
    return response.json(), took_s


def _under_way(stack: OutageStack, then: Callable[[], None]) -> list[tuple[dict[str, Any], float]]:
    """Return the answers to both questions, asked at once, after ``then`` happened while the model kept them waiting."""
    stack.break_("model", "frozen")
    with ThreadPoolExecutor(len(QUESTIONS)) as pool:
        asked: list[Future[tuple[dict[str, Any], float]]] = [pool.submit(_ask, stack, text) for text in QUESTIONS]
        time.sleep(0.25)
        stack.proxies["model"].heal()
        then()
        return [future.result() for future in asked]


def _answered(found: dict[str, Any], question: str, *, lane: str) -> None:
    assert (found["status"], found["trace"]["lane"]) == ("succeeded", lane), found["stats"]
    assert found["chunks"][0]["document_id"] == QUESTIONS[question]


class DescribeTheLaneDuringAnOutage:
    @pytest.mark.parametrize(
        ("part", "fault"),
        [
            ("broker", "stopped"),
            ("worker", "frozen"),
            ("worker", "stopped"),
            ("broker", "frozen"),
        ],
    )
    def it_answers_without_workers_and_broker(self, stack, part: Part, fault):
        stack.break_(part, fault)
        for question in QUESTIONS:
            found, took_s = _ask(stack, question)
            _answered(found, question, lane="in_process")
            assert not found["stats"]["degraded"], found["stats"]
            assert took_s < DEADLINE_S

    def it_answers_a_waiting_caller_whose_query_the_broker_refuses(self, stack):
        stack.client.put("/v1/profiles/by-workers", json={"config": {"lane": "chord"}}).raise_for_status()
        found, _ = _ask(stack, "photovoltaic panels", profile="by-workers")
        _answered(found, "photovoltaic panels", lane="chord")
        stack.break_("broker", "stopped")
        found, took_s = _ask(stack, "photovoltaic panels", profile="by-workers")
        _answered(found, "photovoltaic panels", lane="in_process")
        assert took_s < DEADLINE_S

    @pytest.mark.parametrize("fault", ["stopped", "frozen"])
    @pytest.mark.parametrize("lane", ["chord", "in_process"])
    def it_answers_what_is_under_way_while_redis_is_away(self, stack, lane, fault):
        """The queries wait for the model when Redis goes, and for longer than half of their time."""
        stack.client.put("/v1/profiles/patient", json={"config": {"lane": lane}}).raise_for_status()
        body = {"namespaces": [NAMESPACE], "deadline_ms": 4000, "profile": "patient"}

        def run() -> None:
            stack.break_("model", "frozen")
            with ThreadPoolExecutor(len(QUESTIONS)) as pool:
                began = time.monotonic()
                asked = {
                    document: pool.submit(
                        stack.client.post,
                        "/v1/rag/query",
                        json={**body, "query_text": f"{question} {uuid.uuid4().hex[:8]}"},
                    )
                    for question, document in QUESTIONS.items()
                }
                time.sleep(0.25)
                stack.break_("redis", fault)
                stack.proxies["model"].heal()
                for document, future in asked.items():
                    response = future.result()
                    took_s = time.monotonic() - began
                    assert response.status_code == 200, response.text
                    found = response.json()
                    assert found["status"] == "succeeded", found["stats"]
                    assert found["chunks"][0]["document_id"] == document
                    assert took_s <= 4.0 + LATE_S
            stack.heal()

        in_two_tries(run)

    @pytest.mark.parametrize("part", ["mysql", "postgres"])
    def it_loses_what_the_chord_loses_and_is_as_punctual(self, stack, part: Part):
        def run() -> None:
            _ready(stack)
            stack.break_(part, "frozen")
            lost: dict[str, Any] = {}
            body = {"query_text": f"photovoltaic panels {uuid.uuid4().hex[:8]}", "namespaces": [NAMESPACE]}
            try:
                for path, headers in {"/v1/rag/query": {}, "/v1/queries": {"Prefer": "respond-async"}}.items():
                    began = time.monotonic()
                    response = stack.client.post(path, json=body, headers=headers)
                    if response.status_code == 202:
                        response = stack.client.get(response.headers["Location"], params={"wait": 5})
                    assert time.monotonic() - began <= DEADLINE_S + LATE_S, path
                    lost[path] = _outcome(response)
            finally:
                stack.heal()
            assert lost["/v1/rag/query"] == lost["/v1/queries"]

        in_two_tries(run)


def _outcome(response: Any) -> tuple[Any, ...]:
    told = response.json()
    if response.status_code != 200:
        return response.status_code, told["code"]
    error = told["error"] and told["error"]["code"]
    named = sorted((each["part"], each["code"]) for each in told["stats"]["degradations"])
    return 200, told["status"], error, named, [chunk["document_id"] for chunk in told["chunks"]]


class DescribeAProcessOfTheLane:
    def it_is_replaced_when_it_is_killed_and_its_query_answered_by_another(self, stack):
        def run() -> None:
            before = _ready(stack)
            killed = min(before)
            answers = _under_way(stack, lambda: os.kill(killed, signal.SIGKILL))
            for question, (found, took_s) in zip(QUESTIONS, answers, strict=True):
                _answered(found, question, lane="in_process")
                assert took_s <= DEADLINE_S + LATE_S
            assert len(_ready(stack, but=frozenset({killed})) - before) == 1

        in_two_tries(run)

    def it_leaves_its_queries_to_the_chord_when_all_are_killed(self, stack):
        def run() -> None:
            before = _ready(stack)
            answers = _under_way(stack, lambda: [os.kill(pid, signal.SIGKILL) for pid in before] and None)
            for question, (found, took_s) in zip(QUESTIONS, answers, strict=True):
                _answered(found, question, lane="chord")
                assert found["trace"]["plan"]["lane"] == "in_process"
                assert took_s <= DEADLINE_S + LATE_S
            _ready(stack, but=before)

        in_two_tries(run)

    def it_costs_nobody_the_deadline_when_it_hangs_and_is_replaced(self, stack):
        before = _ready(stack)
        for pid in before:
            os.kill(pid, signal.SIGSTOP)
        try:
            body = {"query_text": f"panels {uuid.uuid4().hex[:8]}", "namespaces": [NAMESPACE]}
            began = time.monotonic()
            response = stack.client.post("/v1/rag/query", json=body)
            assert time.monotonic() - began <= DEADLINE_S + LATE_S
            told = orjson.loads(response.content)
            assert (response.status_code, told["status"], told["chunks"]) == (200, "failed", [])
            ends = time.monotonic() + 20
            while len(gone := before - stack.lane_processes()) == 0 and time.monotonic() < ends:
                time.sleep(0.1)
            assert len(gone) == 1  # the one that held the query; the other holds none
        finally:
            for pid in before & stack.lane_processes():
                os.kill(pid, signal.SIGCONT)
