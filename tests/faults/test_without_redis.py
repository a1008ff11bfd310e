"""Queries while Redis or the broker is away, without an in-process lane: query workers of the gateway's host answer."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.doors import Seen, openai, polled, waiting
from tests.support.clients.operating import eventually
from tests.support.stacks.fault_lab import in_two_tries
from tests.support.stacks.outage_stack import NAMESPACE, Fault, OutageStack, Part, outage_stack

pytestmark = pytest.mark.thorough

DEADLINE_S, LATE_S = 3.0, 0.25  # the deadline is the default of an installation
QUESTIONS = {"photovoltaic panels": "solar", "绿茶用多少度的水": "tea"}
DOORS: dict[str, Callable[[Any, str], Seen]] = {"waiting": waiting, "openai": openai}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("without")


@pytest.fixture(scope="module")
def stack(settings, folder) -> Iterator[OutageStack]:
    with outage_stack(settings, folder, CHORDWISE_QUERY_DEADLINE_MS=str(int(DEADLINE_S * 1000))) as found:
        yield found


@pytest.fixture(autouse=True)
def _healed(stack) -> Iterator[None]:
    yield
    stack.heal()


def _unheard(question: str) -> str:
    return f"{question} {uuid.uuid4().hex[:8]}"


def _sockets(folder: Path) -> set[Path]:
    return {*(folder / "keyword-index").glob("queries-*")}


class DescribeAQueryWhoseCallerWaits:
    @pytest.mark.parametrize("fault", ["stopped", "frozen"])
    @pytest.mark.parametrize("part", ["redis", "broker"])
    def it_is_answered_although_it_arrives_meanwhile(self, stack, part: Part, fault: Fault):
        """Without Redis a process asks the model service at a tenth of its pace, and goes on by words alone."""

        def run() -> None:
            stack.heal()
            stack.break_(part, fault)
            for _ in range(3):  # the first one connects
                for door, ask in DOORS.items():
                    for question, document in QUESTIONS.items():
                        seen = ask(stack, _unheard(question))
                        assert (seen.documents or [None])[0] == document, (door, seen)
                        assert seen.lost <= ({"semantic", "rerank"} if part == "redis" else set()), (door, seen)
                        assert seen.took_s <= DEADLINE_S + LATE_S, (door, seen)

        in_two_tries(run)

    @pytest.mark.parametrize("fault", ["stopped", "frozen"])
    @pytest.mark.parametrize("door", [waiting, polled])
    def it_is_answered_although_it_is_under_way_when_redis_goes(self, stack, door, fault: Fault):
        """The model keeps it waiting as Redis goes."""

        def run() -> None:
            stack.heal()
            stack.break_("model", "frozen")
            with ThreadPoolExecutor(len(QUESTIONS)) as pool:
                asked = {name: pool.submit(door, stack, _unheard(text)) for text, name in QUESTIONS.items()}
                time.sleep(0.4)
                stack.break_("redis", fault)
                stack.proxies["model"].heal()
                for document, future in asked.items():
                    seen = future.result()
                    assert (seen.documents or [None])[0] == document, seen
                    assert seen.took_s <= DEADLINE_S + LATE_S, seen

        in_two_tries(run)

    def it_is_answered_by_a_worker_that_was_started_again(self, stack, folder):
        before = _sockets(folder)
        stack.break_("worker", "stopped")
        stack.start_worker()
        [made] = _sockets(folder) - before
        assert before.isdisjoint(_sockets(folder)), "the socket of a worker that is gone is removed"
        assert made.stat().st_mode & 0o777 == 0o600
        stack.break_("redis", "stopped")
        assert waiting(stack, _unheard("photovoltaic panels")).documents[:1] == ["solar"]

    def it_is_answered_in_a_crowd(self, stack):
        stack.break_("redis", "stopped")
        with ThreadPoolExecutor(12) as pool:
            found = [*pool.map(lambda _: waiting(stack, _unheard("photovoltaic panels")), range(48))]
        answered = [seen for seen in found if seen.documents is not None]
        assert {seen.documents[0] for seen in answered if seen.documents} == {"solar"}
        assert [seen for seen in found if seen.documents is None and seen.code != "overloaded"] == []
        assert len(answered) > 36  # also where the machine is busy

    @pytest.mark.parametrize("fault", ["stopped", "frozen"])
    def it_is_refused_in_time_where_the_host_has_no_worker_either(self, stack, fault: Fault):
        stack.break_("worker", fault)
        stack.break_("redis", "stopped")
        for _ in range(2):
            seen = waiting(stack, _unheard("photovoltaic panels"))
            assert (seen.documents, seen.code in ("store_unavailable", "retrieval_unavailable")) == (None, True), seen
            assert seen.took_s <= DEADLINE_S + LATE_S


class DescribeAQueryThatIsPolled:
    def it_is_refused_with_the_time_to_send_it_again(self, stack):
        stack.break_("redis", "stopped")
        body = {"query_text": _unheard("photovoltaic panels"), "namespaces": [NAMESPACE]}
        refused = stack.client.post("/v1/queries", json=body)
        assert (refused.status_code, refused.json()["code"]) == (503, "store_unavailable")
        assert refused.headers["Retry-After"]


class DescribeTheTimeAfterwards:
    def it_has_queries_by_the_broker_again_and_no_connection_left(self, stack, folder):
        stack.break_("redis", "stopped")
        waiting(stack, _unheard("photovoltaic panels"))
        stack.heal()
        found = stack.client.post("/v1/rag/debug", json={"query_text": _unheard("tea"), "namespaces": [NAMESPACE]})
        assert found.json()["trace"]["lane"] == "chord"
        eventually(lambda: not any(path.name in _connected() for path in _sockets(folder)), within_s=10)


def _connected() -> str:
    """Return the machine's connections by sockets of the file system, which have state 03."""
    lines = Path("/proc/net/unix").read_text().splitlines()[1:]
    return "\n".join(line for line in lines if line.split()[5] == "03")
