"""Flower as it is run: asks for a password, shows whose task it is, and never what is in a document."""

from __future__ import annotations

import os
import socket
import statistics
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from sqlalchemy import make_url

from compose.localstack.services import SERVICES
from pipeline.answer.ended_query import is_shown
from tests.conftest import gateway, make_tenant
from tests.support.clients.operating import eventually
from tests.support.corpora.documents import document, upload
from tests.support.corpora.queries import ended_query
from tests.support.servers.business_api import business_api, says, slowly
from tests.support.stacks.processes import free_port, process, wait_for_http, wait_for_log

SECRET = "zwiebelkuchen"  # in the error of the task that fails
LOGIN = ("operator", "let-me-in")


@pytest.fixture(scope="module")
def flower(settings, tmp_path_factory) -> Iterator[str]:
    """The address of a Flower with the local stack's own arguments, beside a worker that fails a task."""
    logs = tmp_path_factory.mktemp("flower")
    url = make_url(settings.redis_url.get_secret_value()).set(database="14").render_as_string(False)
    port = free_port()
    environment = {
        "CHORDWISE_REDIS_URL": url,
        "CHORDWISE_BROKER_URL": url,
        "FLOWER_BASIC_AUTH": ":".join(LOGIN),
        "PLANTED_TEXT": SECRET,
    }
    [row] = [service for service in SERVICES if service.name == "flower"]
    arguments = [part.format(flower_port=port, run="") for part in row.arguments]
    arguments[arguments.index("workers.observer")] = "tests.support.stacks.failing_worker"
    flags = [
        "-n",
        "failing@%h",
        "-Q",
        "ingest",
        "--pool",
        "solo",
        "--without-gossip",
        "--without-mingle",
        "-l",
        "INFO",
        "-E",
    ]
    with (
        process(*arguments, log=logs / "flower.log", **environment),
        process(
            "celery",
            "-A",
            "tests.support.stacks.failing_worker",
            "worker",
            *flags,
            log=logs / "worker.log",
            **environment,
        ),
    ):
        wait_for_http(f"http://127.0.0.1:{port}/healthcheck")
        wait_for_log(logs / "worker.log", " ready.")
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def task(flower: str, settings) -> dict[str, Any]:
    """A task that failed, as Flower's interface tells of it."""
    from celery import Celery

    url = make_url(settings.redis_url.get_secret_value()).set(database="14").render_as_string(False)
    sender = Celery("sender", broker=url, set_as_current=False)
    sender.config_from_object("celery_config")
    sender.conf.broker_url = url

    def look() -> dict[str, Any] | None:
        ids = {"tenant_id": "acme", "job_id": "job-7"}
        sender.send_task("ingest.batch", kwargs=ids, queue="ingest", argsrepr="()", kwargsrepr=repr(ids))
        time.sleep(0.5)
        listed = httpx.get(f"{flower}/api/tasks", auth=LOGIN, timeout=10).json()
        return next((each for each in listed.values() if each["state"] == "FAILURE"), None)

    found = eventually(look, within_s=40)
    sender.close()
    return found


class DescribeFlower:
    @pytest.mark.parametrize("path", ["/", "/workers", "/tasks", "/api/workers", "/api/tasks"])
    def it_asks_for_a_password(self, view, path):
        url = view.base_url.join(path)
        assert httpx.get(url).status_code == 401
        assert httpx.get(url, auth=("operator", "wrong")).status_code == 401
        assert view.get(path, follow_redirects=True).status_code == 200

    @pytest.mark.thorough
    def it_shows_whose_task_it_is(self, task, flower):
        assert "acme" in task["kwargs"]
        assert "job-7" in task["kwargs"]
        assert "kwargs" in httpx.get(f"{flower}/tasks", auth=LOGIN).text

    @pytest.mark.thorough
    def it_names_the_kind_of_a_failure_and_nothing_that_was_in_it(self, task, flower):
        assert task["exception"] == "RuntimeError"
        told = [httpx.get(f"{flower}{path}", auth=LOGIN).text for path in (f"/task/{task['uuid']}", "/api/tasks")]
        assert not any(SECRET in page for page in told)

    def it_listens_on_loopback_alone(self):
        [row] = [service for service in SERVICES if service.name == "flower"]
        assert "--address=127.0.0.1" in row.arguments


MAPPING = {"items": "/found", "id": "/no", "text": "/text", "score": "/match"}
FOUND = {"found": [{"no": "1", "text": "Shipped on Monday.", "match": 0.9}]}
ASKED = 100
SHOWN_WITHIN_S = 20
TICKS = ("upkeep.",)


def is_sampled(query_id: str, percent: float) -> bool:
    """Return whether a query without anything special about it is shown."""
    return is_shown(ended_query(query_id), percent=percent, slow_ms=1000.0)


@pytest.fixture(scope="module")
def view() -> Iterator[httpx.Client]:
    """The Flower of the running stack."""
    login = (os.environ["CHORDWISE_FLOWER_USER"], os.environ["CHORDWISE_FLOWER_PASSWORD"])
    with httpx.Client(base_url=os.environ["CHORDWISE_FLOWER_URL"], auth=login, timeout=20) as client:
        yield client


def tasks_by_query(view: httpx.Client) -> dict[str, dict[str, dict[str, Any]]]:
    """Return what Flower shows of queries: by root id, the tasks by their channel, or by their name without one."""
    found: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for task in view.get("/api/tasks", params={"limit": 100_000}).json().values():
        if str(task["name"]).startswith("recall."):
            channel = task["kwargs"].partition("'channel': '")[2].partition("'")[0]
            found[task["root_id"]][channel or task["name"]] = task
    return found


def shown(view: httpx.Client, is_there: Callable[[dict[str, dict[str, dict[str, Any]]]], bool]) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        found = tasks_by_query(view)
        return found if is_there(found) else None

    return eventually(look, within_s=SHOWN_WITHIN_S)


def ask(client: httpx.Client, namespace: str, question: str, **fields: Any) -> dict[str, Any]:
    body = {"query_text": question, "namespaces": [namespace], **fields}
    answer = client.post("/v1/rag/query", json=body, headers={"Cache-Control": "no-cache"})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


@pytest.fixture(scope="module")
def asker(use) -> Iterator[httpx.Client]:
    with gateway(make_tenant(use)[1]) as client:
        yield client


@pytest.fixture(scope="module")
def answers(asker) -> list[dict[str, Any]]:
    upload(asker, "kb", [document("tea", "Green tea is brewed at eighty degrees. 绿茶用八十度的水冲泡。")])
    questions = [
        f"{'绿茶用几度的水' if number % 2 else 'how hot is water for tea'} {number}" for number in range(ASKED)
    ]
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda question: ask(asker, "kb", question), questions))


@pytest.mark.stack
class DescribeQueriesInFlower:
    def it_shows_a_tenth_of_them_and_some_of_the_next_as_chords(self, view, asker, answers):
        calm = [
            each for each in answers if each["stats"]["latency_ms"]["total"] < 900 and not each["stats"]["degraded"]
        ]
        expected = {each["query_id"] for each in calm if is_sampled(each["query_id"], 10)}
        found = shown(view, lambda found: expected <= found.keys())
        assert expected, "of a hundred queries some are sampled"
        asked = {
            ask(asker, "kb", f"is green tea brewed at eighty degrees {number}")["query_id"] for number in range(10)
        }
        assert shown(view, lambda found: asked & found.keys())
        for query_id in expected:
            tasks = found[query_id]
            assert tasks.keys() == {"keyword", "semantic", "recall.answer"}
            assert {task["root_id"] for task in tasks.values()} == {query_id}
            assert {task["state"] for task in tasks.values()} == {"SUCCESS"}
            assert tasks["recall.answer"]["uuid"] == query_id
            assert all(query_id in task["kwargs"] for task in tasks.values())
            assert all(task["worker"].startswith("queries") for task in tasks.values())
            last = max(tasks[channel]["succeeded"] for channel in ("keyword", "semantic"))
            assert tasks["recall.answer"]["started"] >= last - 0.05, "the callback runs after the headers"

    def it_shows_no_text_of_a_query_and_no_tick_of_the_clock(self, view, answers):
        page = view.get("/api/tasks", params={"limit": 100_000}).text
        assert "绿茶" not in page
        assert "\\u7eff\\u8336" not in page
        assert "eighty" not in page
        tasks = view.get("/api/tasks", params={"limit": 100_000}).json().values()
        ticks = [task for task in tasks if str(task["name"]).startswith(TICKS)]
        assert {task["state"] for task in ticks} <= {"FAILURE"}, "a tick that failed by a defect is worth seeing"

    @pytest.mark.thorough
    def it_shows_every_failed_degraded_and_slow_query(self, view, asker, answers):
        with business_api() as api:
            api.answers["/lost"] = says({}, status=500)
            api.answers["/slow"] = slowly(1.3, FOUND)
            for name in ("lost", "slow"):
                body = {"url": f"{api.url}/{name}", "mapping": MAPPING, "timeout_ms": 2000}
                assert asker.put(f"/v1/api-sources/{name}", json=body).status_code in (200, 201)

            def channels(source: str, **others: Any) -> dict[str, Any]:
                api_channel = {"timeout_ms": 2000, "retry": 0, "options": {"source": source}}
                return {"retrieve": {"channels": {"api": api_channel, **others}}}

            alone = {"keyword": {"weight": 0}, "semantic": {"weight": 0}}
            failed = ask(asker, "kb", "订单在哪里", **channels("lost", **alone))
            degraded = ask(asker, "kb", "where is my order", **channels("lost"))
            slow = ask(asker, "kb", "when does it arrive", **channels("slow"))
        assert (failed["status"], degraded["status"], slow["status"]) == ("failed", "succeeded", "succeeded")
        ids = {each["query_id"] for each in (failed, degraded, slow)}
        found = shown(view, lambda found: ids <= found.keys())
        lost = found[failed["query_id"]]
        assert {name: task["state"] for name, task in lost.items()} == {"api": "FAILURE", "recall.answer": "FAILURE"}
        assert lost["recall.answer"]["exception"] == "retrieval_unavailable"
        partly = found[degraded["query_id"]]
        assert {name: task["state"] for name, task in partly.items()} == {
            "keyword": "SUCCESS",
            "semantic": "SUCCESS",
            "api": "FAILURE",
            "recall.answer": "SUCCESS",
        }
        assert "degraded api:" in partly["recall.answer"]["result"]
        assert found[slow["query_id"]]["api"]["runtime"] > 1.0

    @pytest.mark.thorough
    def it_shows_all_or_none_as_it_is_told_while_workers_run(self, view, asker, answers):
        from workers.producer import producer

        def told(percent: float) -> None:
            said = producer.control.broadcast(
                "query_events", arguments={"percent": percent}, reply=True, timeout=3, limit=5
            )
            told_workers = {name: answer for reply in said for name, answer in reply.items()}
            assert {"ok": f"{percent:g} % of queries are shown"} in told_workers.values()

        try:
            told(100)
            wanted = [ask(asker, "kb", f"all of them {number}")["query_id"] for number in range(6)]
            shown(view, lambda found: set(wanted) <= found.keys())
            told(0)
            hidden = [ask(asker, "kb", f"none of them {number}") for number in range(6)]
        finally:
            told(10)
        calm = {each["query_id"] for each in hidden if each["stats"]["latency_ms"]["total"] < 900}
        time.sleep(2)
        assert not calm & tasks_by_query(view).keys()
        refused = producer.control.broadcast(
            "query_events", arguments={"percent": "lots"}, reply=True, timeout=3, limit=5
        )
        assert "from 0 to 100, not lots" in str(refused)

    def it_shows_the_workers_of_queries_online_with_host_and_load(self, view):
        workers = view.get("/workers", params={"json": True}).json()["data"]
        online = {each["hostname"].partition("@")[0]: each for each in workers if each["status"] is True}
        for name in ("queries", "queries-2"):
            assert online[name]["hostname"].partition("@")[2]
            assert len(online[name]["loadavg"]) == 3


class DescribeABrokerThatIsAway:
    @pytest.mark.parametrize("accepts", [True, False], ids=["hangs", "refuses"])
    def it_costs_a_query_nothing(self, accepts):
        """A thousand queries end while the broker takes nothing; the process that answers them does not wait for it."""
        from kombu import Connection

        from workers.query_events import QueryEvents

        with socket.socket() as broker:
            broker.bind(("127.0.0.1", 0))
            if accepts:
                broker.listen(8)  # connections are established, and nothing is ever said
            url = f"redis://127.0.0.1:{broker.getsockname()[1]}/0"
            options = {"socket_timeout": 1.0, "socket_connect_timeout": 1.0}
            view = QueryEvents(percent=100, slow_ms=1000, connect=lambda: Connection(url, transport_options=options))
            query = ended_query(str(uuid.uuid4()))
            view.show(query)
            time.sleep(0.5)  # the thread is waiting for the broker now
            taken = []
            for _ in range(1000):
                began = time.perf_counter()
                view.show(query)
                taken.append(time.perf_counter() - began)
        assert statistics.median(taken) < 0.001
        assert max(taken) < 0.25

    @pytest.mark.thorough
    def it_sends_again_once_the_broker_answers(self, view):
        from workers.producer import producer
        from workers.query_events import QueryEvents

        query, tries = ended_query(str(uuid.uuid4())), []

        def connect() -> Any:
            tries.append(1)
            if len(tries) <= 2:
                raise ConnectionError("not yet")
            return producer.connection_for_write()

        events = QueryEvents(percent=100, slow_ms=1000, connect=connect, pause_s=0.1)

        def look() -> bool:
            events.show(query)
            return query.query_id in tasks_by_query(view)

        assert eventually(look, within_s=SHOWN_WITHIN_S)
        assert len(tries) == 3, "one connection serves all that follows"
