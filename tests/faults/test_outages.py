"""Each dependency stopped, frozen and slow, through every interface: in time, by one rule, with the right passages.

docs/http-api.md has the rule and the table of interfaces.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx
import orjson
import pytest

from tests.support.clients.doors import CODES, Seen, of_v1, openai, polled, waiting
from tests.support.clients.mcp_clients import agent
from tests.support.clients.operating import eventually
from tests.support.stacks.fault_lab import in_two_tries
from tests.support.stacks.outage_stack import (
    ADMIN_KEY,
    DEADLINE_S,
    DOCUMENTS,
    NAMESPACE,
    SLOW_S,
    Fault,
    OutageStack,
    Part,
    outage_stack,
)

LATE_S = 0.25
QUESTIONS = {"photovoltaic panels": "solar", "绿茶用多少度的水": "tea"}

# The channels that remain; None: none could be asked, or no text could be read.
REMAINS: dict[Part, str | None] = {
    "mysql": "both",  # and texts, by this host's index
    "postgres": "keyword",
    "redis": "for who waits",  # the worker answers its host
    "broker": "for who waits",
    "worker": None,
    "model": "keyword",
    "dns": "keyword",  # of the model's name
}
ROWS = {"openai"}  # doors that show rows of files, which are nowhere but in MySQL
# One cell for each rule; all cells are in the long run.
SHORT = {
    ("mysql", "stopped"),
    ("postgres", "frozen"),
    ("worker", "frozen"),
    ("model", "stopped"),
}
FAULTS = [
    pytest.param(part, fault, marks=[] if (part, fault) in SHORT else pytest.mark.thorough)
    for part in REMAINS
    for fault in ("stopped", "frozen")
]
SLOW = [pytest.param(part, "slow", marks=pytest.mark.thorough) for part in REMAINS if part != "dns"]


@pytest.fixture(scope="module")
def stack(settings, tmp_path_factory) -> Iterator[OutageStack]:
    with outage_stack(settings, tmp_path_factory.mktemp("outages")) as found:
        for (
            question,
            document_id,
        ) in QUESTIONS.items():  # without namespaces, whose names the gateway knows from then on
            seen = mcp(found, question)
            assert (seen.documents or [None])[0] == document_id, seen
        yield found


def dify(stack: OutageStack, question: str) -> Seen:
    started = time.monotonic()
    body = {"knowledge_id": NAMESPACE, "query": question, "retrieval_setting": {"top_k": 3}}
    response = stack.client.post("/dify/retrieval", json=body)
    took_s, told = time.monotonic() - started, response.json()
    if response.status_code == 200:
        documents = [each["metadata"]["document_id"] for each in told["records"]]
        lost = frozenset(each.partition(":")[0] for each in told.get("remarks", ()))
        return Seen(took_s=took_s, documents=documents, lost=lost)
    assert (response.status_code, told["error_code"]) == (503, 503)
    return Seen(took_s=took_s, documents=None, code="retrieval_unavailable", said=told["error_msg"])


def mcp(stack: OutageStack, question: str) -> Seen:
    async def call() -> Seen:
        async with agent(stack.key, url=stack.url) as client:
            started = time.monotonic()
            result = await client.call_tool("search", {"query": question})
            took_s = time.monotonic() - started
            [content] = result.content
            if result.is_error:
                return Seen(took_s=took_s, documents=None, code=_code_in(content.text), said=content.text)
            told = orjson.loads(content.text)
            lost = frozenset(each.partition(":")[0] for each in told["remarks"])
            assert told["degraded"] is bool(lost)
            return Seen(took_s=took_s, documents=[each["document_id"] for each in told["results"]], lost=lost)

    return asyncio.run(call())


def command_line(stack: OutageStack, question: str) -> Seen:
    program = Path(sys.executable).with_name("chordwise")
    environment = {**os.environ, "CHORDWISE_URL": stack.url, "CHORDWISE_API_KEY": stack.key}
    command = [program, "query", question, "--namespace", NAMESPACE, "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode == 0:
        return of_v1(orjson.loads(done.stdout), orjson.loads(done.stdout)["stats"]["latency_ms"]["total"] / 1000)
    assert done.returncode == 1
    assert done.stdout == ""
    [sentence] = done.stderr.strip().splitlines()
    return Seen(took_s=0.0, documents=None, code=_code_in(sentence), said=sentence)


def _code_in(sentence: str) -> str | None:
    return next((code for code in sorted(CODES) if code in sentence), None)


DOORS: dict[str, Callable[[OutageStack, str], Seen]] = {
    "waiting": waiting,
    "polled": polled,
    "openai": openai,
    "dify": dify,
    "mcp": mcp,
    "command_line": command_line,
}


def _unheard(question: str) -> str:
    """Return the question with an added word that no document has, so that no cache holds its vector."""
    return f"{question} {uuid.uuid4().hex[:8]}"


def _see(stack: OutageStack, part: Part, fault: Fault) -> dict[tuple[str, str], Seen]:
    """Return the result of each interface for each question while the part is at fault, and compare the metrics."""
    stack.heal()
    before = stack.counted()
    stack.break_(part, fault)
    try:
        questions = list(QUESTIONS)  # by turns, so that each door is asked in both languages
        asked = {door: questions[(place + (fault == "frozen")) % 2] for place, door in enumerate(DOORS)}
        together = {door: question for door, question in asked.items() if door != "command_line"}
        with ThreadPoolExecutor(len(together)) as pool:
            seen = {pair: pool.submit(DOORS[pair[0]], stack, _unheard(pair[1])) for pair in together.items()}
            found = {pair: future.result() for pair, future in seen.items()}
        last = asked["command_line"]
        found["command_line", last] = command_line(stack, _unheard(last))
    finally:
        stack.heal()
    # A query that is refused before it is stored counts among refusals.
    failed = sum(each.documents is None and each.code != "overloaded" for each in found.values())
    partial = sum(each.documents is not None and bool(each.lost) for each in found.values())
    _counts(stack, before, failed=failed, partial=partial)
    return found


def _counts(stack: OutageStack, before: dict[tuple[str, str], float], *, failed: int, partial: int) -> None:
    """Check that metrics agree with the callers' results; figures that could not be written at once may come later."""
    ends = time.monotonic() + 10
    while True:
        after = stack.counted()
        new = {name: after[name] - before.get(name, 0.0) for name in after}
        more_failed = sum(value for (status, _), value in new.items() if status == "failed")
        # Until the stack was whole again its own queries were counted as well.
        if more_failed >= failed and new.get(("succeeded", "true"), 0.0) >= partial and (failed or not more_failed):
            return
        assert time.monotonic() < ends, (new, failed, partial)
        time.sleep(0.3)


class DescribeATenantThatHasNotAskedBefore:
    """The first one here: later tests ask as this tenant."""

    @pytest.mark.parametrize("question", QUESTIONS)
    def it_gets_texts_while_mysql_is_away_if_its_key_was_used(self, stack, question: str):
        """Texts of the host's index are withheld without the tenant's rules for personal data."""
        for _ in range(3):  # the rules are read beside a request
            assert stack.other.get("/v1/jobs", params={"limit": 1}).status_code == 200
        stack.break_("mysql", "stopped")
        try:
            body = {"query_text": question, "namespaces": [NAMESPACE]}
            answer = stack.other.post("/v1/rag/query", json=body).json()
        finally:
            stack.heal()
        assert [chunk["document_id"] for chunk in answer["chunks"]][:1] == [QUESTIONS[question]], answer["stats"]


BURST = 10  # more than the worker has threads


class DescribeABurst:
    @pytest.mark.thorough
    def it_keeps_the_other_channel_of_every_query_while_one_store_hangs(self, stack):
        def run() -> None:
            stack.heal()
            stack.break_("postgres", "frozen")
            asked = [list(QUESTIONS)[place % 2] for place in range(BURST)]
            try:
                with ThreadPoolExecutor(BURST) as pool:
                    found = list(pool.map(lambda question: waiting(stack, _unheard(question)), asked))
            finally:
                stack.heal()
            for question, seen in zip(asked, found, strict=True):
                assert seen.took_s <= DEADLINE_S + LATE_S, found
                assert (seen.documents, "semantic" in seen.lost) == ([QUESTIONS[question]], True), found

        in_two_tries(run)


class DescribeOverload:
    def it_is_refused_in_time_at_every_door_and_ends_with_its_cause(self, stack):
        """Every place is held by queries of another gateway."""
        stack.heal()
        doors = [door for door in DOORS if door != "command_line"]  # which tries again, as a refusal asks for
        with stack.all_places_held(), ThreadPoolExecutor(len(doors)) as pool:
            seen = {door: pool.submit(DOORS[door], stack, _unheard("photovoltaic panels")) for door in doors}
            found = {door: future.result() for door, future in seen.items()}
            refusal = stack.client.post("/v1/queries", json={"query_text": "panels", "namespaces": [NAMESPACE]})
        for door, each in found.items():
            assert each.documents is None, door
            assert each.took_s <= DEADLINE_S, door
            assert each.code == "overloaded" or door == "dify", (door, each.said)
            assert "send this again" in each.said, door
        assert (refusal.status_code, refusal.headers["retry-after"]) in {(503, "1"), (503, "2")}
        for door in DOORS:
            assert DOORS[door](stack, _unheard("photovoltaic panels")).documents[:1] == ["solar"], door

    @pytest.mark.thorough
    def it_shares_what_a_hanging_store_leaves(self, stack):
        """One tenant asks sixty questions at once while PostgreSQL hangs, which holds each query's thread for a while;
        another tenant asks beside it."""

        def asks(client: httpx.Client, question: str) -> tuple[float, httpx.Response]:
            started = time.monotonic()
            body = {"query_text": _unheard(question), "namespaces": [NAMESPACE]}
            response = client.post("/v1/rag/query", json=body)
            return time.monotonic() - started, response

        def run() -> None:
            stack.heal()
            stack.break_("postgres", "frozen")
            try:
                with ThreadPoolExecutor(61) as pool:
                    crowd = [pool.submit(asks, stack.client, "photovoltaic panels") for _ in range(60)]
                    calm = [asks(stack.other, "绿茶用多少度的水") for _ in range(5)]
                    answers = [each.result() for each in crowd]
            finally:
                stack.heal()
            for took_s, response in [*answers, *calm]:
                assert took_s <= DEADLINE_S + LATE_S
                if response.status_code == 503:
                    assert response.json()["code"] == "overloaded"
                    assert 1 <= int(response.headers["retry-after"]) <= 60
                else:
                    assert response.json()["status"] == "succeeded"
            assert sum(response.status_code == 200 for _, response in answers) >= 4
            for _, response in calm:
                assert [each["document_id"] for each in response.json()["chunks"]][:1] == ["tea"]

        in_two_tries(run)


# The fault begins this many seconds after the query was sent: before it is stored, while channels are asked, while texts
# are read, while the answer is composed and read.
BEGINS_S = (0.0, 0.004, 0.012, 0.025, 0.05)
DEADLINES = [
    pytest.param(
        part,
        fault,
        deadline_ms,
        marks=[] if (part, fault, deadline_ms) == ("mysql", "frozen", 500) else pytest.mark.thorough,
    )
    for part in REMAINS
    for fault in ("stopped", "frozen")
    for deadline_ms in (500, 1000, 5000)
]


class DescribeTheDeadlineOfARequest:
    @pytest.mark.parametrize(("part", "fault", "deadline_ms"), DEADLINES)
    def it_holds_at_whatever_moment_something_goes_away(self, stack, part: Part, fault: Fault, deadline_ms: int):
        def run(begins_s: float) -> None:
            stack.heal()
            with ThreadPoolExecutor(2) as pool:
                asked = [
                    pool.submit(door, stack, _unheard(question), deadline_ms=deadline_ms)
                    for door, question in zip((waiting, polled), QUESTIONS, strict=True)
                ]
                time.sleep(begins_s)
                stack.break_(part, fault)
                found = [each.result() for each in asked]
            stack.heal()
            for seen in found:
                assert seen.took_s <= deadline_ms / 1000 + LATE_S, (begins_s, found)
                assert seen.documents or seen.said, (begins_s, found)
                if part == "mysql" and fault == "stopped":
                    assert seen.documents, (begins_s, found)

        for begins_s in BEGINS_S if deadline_ms < 5000 else BEGINS_S[::2]:
            in_two_tries(partial(run, begins_s))


class DescribeAnOutage:
    @pytest.mark.parametrize(("part", "fault"), FAULTS)
    def it_is_answered_in_time_by_one_rule_at_every_door(self, stack, part: Part, fault: Fault):
        def run() -> None:
            for (door, question), seen in _see(stack, part, fault).items():
                where = f"{door}: {seen}"
                assert seen.took_s <= DEADLINE_S + LATE_S, where
                waits = REMAINS[part] == "for who waits" and door != "polled"
                if waits and seen.documents is not None:
                    assert seen.documents[0] == QUESTIONS[question], where
                    assert seen.lost <= {"semantic", "rerank"}, where
                elif waits:
                    assert fault == "frozen" or part == "broker", where  # to notice which takes the whole second
                    assert seen.said, where
                elif REMAINS[part] in (None, "for who waits") or (part == "mysql" and door in ROWS):
                    assert seen.documents is None, where
                    assert seen.code in CODES or door == "command_line", where
                    assert seen.said, where
                else:
                    assert seen.documents is not None, where
                    assert seen.documents[0] == QUESTIONS[question], where
                    if part == "mysql":
                        assert seen.lost == {"mysql"}, where
                    else:
                        assert len(seen.documents) == 1, where  # only the document with its words
                        assert "semantic" in seen.lost, where
                        assert seen.lost <= {"semantic", "rerank"}, where  # a reranker begins nothing without time

        in_two_tries(run)

    @pytest.mark.parametrize(("part", "fault"), SLOW)
    def it_is_in_time_and_true_where_a_part_is_slow(self, stack, part: Part, fault: Fault):
        def run() -> None:
            for (door, question), seen in _see(stack, part, fault).items():
                where = f"{door}: {seen}"
                assert seen.took_s <= DEADLINE_S + LATE_S + SLOW_S, where  # polling reads Redis once more
                if seen.documents is None:
                    assert seen.said, where
                else:
                    assert seen.documents[0] == QUESTIONS[question], where
                    assert set(seen.documents) <= set(DOCUMENTS), where

        in_two_tries(run)


class DescribeAnIdempotencyKey:
    def it_is_free_soon_after_the_store_that_went_away_under_its_request_is_back(self, stack):
        document = {"document_id": "kept", "text": "A red fox."}
        body = orjson.dumps({"namespace": "keys", "documents": [document]})

        def run() -> None:
            stack.heal()
            headers = {"Idempotency-Key": uuid.uuid4().hex, "Content-Type": "application/json"}

            def halves() -> Iterator[bytes]:
                yield body[:20]
                answers: list[str] = []

                def is_held() -> bool:
                    answer = stack.client.post("/v1/documents", headers=headers, content=b"{")
                    answers.append(f"{answer.status_code} {answer.json().get('code')}")
                    return answer.status_code == 409

                try:
                    eventually(is_held)
                except AssertionError:
                    raise AssertionError(answers[-3:]) from None
                stack.break_("mysql", "stopped")
                yield body[20:]

            try:
                assert stack.client.post("/v1/documents", content=halves(), headers=headers).status_code == 503
            finally:
                stack.heal()
            again = partial(stack.client.post, "/v1/documents", content=body, headers=headers)
            eventually(lambda: again().status_code == 202, within_s=10)  # the lease lasts a minute

        in_two_tries(run)


SCRAPED_WITHIN_S, REFUSED_WITHIN_S, EXAMINED_WITHIN_S = 5.0, 5.0, 12.0  # a worker has up to six to answer the doctor


class DescribeAFrozenStore:
    @pytest.mark.parametrize("part", ["mysql", "redis", pytest.param("postgres", marks=pytest.mark.thorough)])
    def it_keeps_neither_metrics_nor_uploads_nor_the_doctor_waiting(self, stack, part: Part):
        def took(call: Callable[[], httpx.Response]) -> tuple[httpx.Response, float]:
            began = time.monotonic()
            return call(), time.monotonic() - began

        stack.heal()
        upload = {"namespace": "frozen", "documents": [{"document_id": "one", "text": "A red fox."}]}
        operator = {"Authorization": f"Bearer {ADMIN_KEY}"}
        stack.break_(part, "frozen")
        try:
            with ThreadPoolExecutor(3) as pool:
                scraped = pool.submit(took, lambda: stack.client.get("/v1/metrics"))
                sent = pool.submit(took, lambda: stack.client.post("/v1/documents", json=upload))
                examined = pool.submit(took, lambda: stack.client.get("/v1/doctor", headers=operator))
                (page, scraped_s), (answer, sent_s), (findings, examined_s) = (
                    each.result() for each in (scraped, sent, examined)
                )
        finally:
            stack.heal()
        assert scraped_s < SCRAPED_WITHIN_S
        up = {line for line in page.text.splitlines() if line.startswith("chordwise_store_up{")}
        stores = ("mysql", "postgres", "redis", "broker")
        assert up == {f'chordwise_store_up{{store="{name}"}} {float(name != part)}' for name in stores}
        assert ("chordwise_ingest_items{" in page.text) == (part != "mysql")
        assert ("chordwise_queries_total{" in page.text) == (part != "redis")
        assert sent_s < REFUSED_WITHIN_S
        assert answer.status_code == (503 if part == "mysql" else 202), answer.text
        if part == "mysql":
            assert answer.json()["detail"] == "MySQL is not answering; nothing was accepted."
        assert examined_s < EXAMINED_WITHIN_S
        assert findings.status_code == 200, findings.text
        failed = {each["check"] for each in findings.json()["findings"] if each["severity"] == "failed"}
        assert part in failed

    @pytest.mark.parametrize("part", ["redis", pytest.param("postgres", marks=pytest.mark.thorough)])
    def it_is_the_only_one_that_is_called_down_however_many_ask(self, stack, part: Part):
        stack.heal()
        stack.break_(part, "frozen")
        try:
            with ThreadPoolExecutor(30) as pool:
                asked = [pool.submit(stack.client.get, "/readyz") for _ in range(90)]
                scraped = pool.submit(stack.client.get, "/v1/metrics", params={"name[]": "chordwise_store_up"})
                bodies = [each.result().json() for each in asked]
                page = scraped.result().text
        finally:
            stack.heal()
        others = {"mysql", "postgres", "redis", "broker"} - {part}
        down = [{name for name in others if body["dependencies"][name]["status"] == "down"} for body in bodies]
        assert [names for names in down if names] == []
        assert all(f'chordwise_store_up{{store="{name}"}} 1.0' in page for name in others), page


class DescribeQueriesThatRedisHasLost:
    def it_opens_them_again_and_calls_none_cancelled_or_failed(self, stack):
        stack.heal()

        def body(question: str) -> dict[str, object]:
            return {"query_text": _unheard(question), "namespaces": [NAMESPACE], "deadline_ms": 6_000}

        with ThreadPoolExecutor(3) as pool:
            with stack.worker_held():
                where = stack.client.post("/v1/queries", json=body("photovoltaic panels")).headers["Location"]
                waited = pool.submit(stack.client.post, "/v1/rag/query", json=body("绿茶用多少度的水"))
                polled = pool.submit(stack.client.get, where, params={"wait": 10})
                followed = pool.submit(stack.client.get, f"{where}/events")
                time.sleep(0.5)
                assert stack.forget_queries() >= 2
                read = stack.client.get(where)
                assert (read.status_code, read.json().get("status", read.json().get("code"))) in (
                    (200, "queued"),
                    (503, "store_unavailable"),  # the gateway's connections were cut
                )
            for response, document in ((waited.result(), "tea"), (polled.result(), "solar")):
                assert response.status_code == 200, response.text
                answer = response.json()
                assert (answer["status"], answer["stats"]["degradations"]) == ("succeeded", [])
                assert answer["chunks"][0]["document_id"] == document
            events = followed.result().text
            assert "event: finished" in events
            assert '"status":"succeeded"' in events
            assert "event: cancelled" not in events
