"""Failovers: a Redis under sentinels that carries messages too and a MariaDB with a replica under load, a RabbitMQ of three
nodes."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from subprocess import PIPE

import httpx
import pytest
from celery import Celery
from kombu import Exchange
from kombu.exceptions import KombuError

from compose.localstack.progress import Failure
from pipeline.resources import Resources
from pipeline.settings import Settings, load
from tests.conftest import make_tables, make_tenant
from tests.support.clients.operating import eventually
from tests.support.repository.project import ROOT
from tests.support.servers.clusters import TwoMariadbs, WatchedRedis, two_mariadbs, watched_redis
from tests.support.servers.own_stores import own_postgres
from tests.support.servers.rabbitmq_nodes import RabbitMqNodes, rabbitmq_nodes
from tests.support.stacks.processes import environment_of, free_port, small_installation
from workers.producer import broker_nodes, producer, waiting_messages
from workers.transport import TaskQueue, options_for_nodes, retry_policy

# It sends a query for each line that it reads.
_SENDER = """
import sys, uuid
from pipeline.errors import PipelineError
from tests.support.corpora.queries import query_of
from pipeline.query.plan import ChannelPlan, Plan, RetrievePlan
from workers import dispatch

plan = Plan(retrieve=RetrievePlan(channels={"keyword": ChannelPlan(), "semantic": ChannelPlan()}))
for _ in sys.stdin:
    try:
        dispatch.ask(query_of("a pump", query_id=str(uuid.uuid4()), plan=plan))
        print("sent", flush=True)
    except PipelineError as error:
        print(f"{error}: {error.__cause__!r}", flush=True)
"""
pytestmark = [pytest.mark.thorough, pytest.mark.timeout(400)]


@dataclass(kw_only=True)
class Load:
    """Uploads and queries of one client, one after the other. ``accepted``: ids of documents; ``codes``: of uploads that
    were refused; ``answers``: queries by status."""

    url: str
    key: str
    accepted: list[str] = field(default_factory=list)
    codes: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    accepted_at: list[float] = field(default_factory=list)

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {self.key}"}, timeout=30)

    def upload(self, client: httpx.Client) -> None:
        name = f"d{len(self.accepted)}-{sum(self.codes.values())}"
        document = {"document_id": name, "text": f"A fox named {name} sleeps. 狐狸{name}在睡觉。"}
        answer = client.post("/v1/documents", json={"namespace": "kb", "documents": [document]})
        if answer.status_code == 202:
            self.accepted.append(name)
            self.accepted_at.append(time.monotonic())
        else:
            assert answer.status_code == 503, answer.text
            assert "Retry-After" in answer.headers
            self.codes[answer.json()["code"]] += 1

    def ask(self, client: httpx.Client) -> None:
        body = {"query_text": f"a fox that sleeps {time.monotonic_ns()}", "namespaces": ["kb"]}
        answer = client.post("/v1/queries", json=body, headers={"Prefer": "wait=10"})
        body = answer.json()
        degraded = " degraded" if answer.status_code == 200 and body["stats"]["degraded"] else ""
        self.answers[f"{answer.status_code} {body.get('status') or body.get('code')}{degraded}"] += 1

    @contextmanager
    def running(self) -> Iterator[None]:
        """Upload and ask until the block ends."""
        stop = threading.Event()

        def repeat(act: Callable[[httpx.Client], None]) -> None:
            with self.client() as client:
                while not stop.is_set():
                    act(client)
                    stop.wait(0.3)

        threads = [threading.Thread(target=repeat, args=(act,)) for act in (self.upload, self.ask)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    def assert_all_found(self) -> None:
        """Every document that was accepted is found by its name."""
        with self.client() as client:

            def missing() -> list[str]:
                lacking = []
                for name in self.accepted:
                    found = client.post("/v1/rag/query", json={"query_text": name, "namespaces": ["kb"]}).json()
                    if name not in {hit["document_id"] for hit in found.get("chunks") or []}:
                        lacking.append(name)
                return lacking

            eventually(lambda: not missing(), within_s=120)


@dataclass(frozen=True, kw_only=True)
class Clustered:
    """An installation on both clusters, and its load."""

    redis: WatchedRedis
    mysql: TwoMariadbs
    load: Load


@pytest.fixture(scope="module")
def clustered(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clustered]:
    folder = tmp_path_factory.mktemp("failover")
    with ExitStack() as whole:
        watched = whole.enter_context(watched_redis(folder / "redis"))
        pair = whole.enter_context(two_mariadbs(folder / "mysql"))
        postgres = whole.enter_context(own_postgres(folder / "postgres"))
        read = load({"mysql_url": pair.url, "postgres_url": postgres.url, "redis_url": watched.url})
        urls = {name: getattr(read, name) for name in ("mysql_url", "postgres_url", "redis_url")}
        use = whole.enter_context(closing(Resources(settings.model_copy(update=urls))))
        make_tables(use)
        _, key = make_tenant(use)
        environment = environment_of(use.settings, redis_url=watched.url, port=free_port())
        url = small_installation(environment | {"CHORDWISE_SWEEP_INTERVAL_S": "1"}, folder, whole)
        yield Clustered(redis=watched, mysql=pair, load=Load(url=url, key=key))


class DescribeAFailover:
    @pytest.mark.parametrize("freeze", [False, True], ids=["killed", "frozen"])
    def it_goes_on_with_the_next_redis_and_loses_no_document(self, clustered: Clustered, freeze: bool):
        before = len(clustered.load.accepted_at)
        with clustered.load.running():
            eventually(lambda: len(clustered.load.accepted_at) > before + 5, within_s=60)
            lost = clustered.redis.fail_over(freeze=freeze)
            moment = time.monotonic()
            eventually(lambda: clustered.load.accepted_at[-1] > moment, within_s=30)
            took = clustered.load.accepted_at[-1] - moment
            eventually(lambda: _answers(clustered.load, "200 succeeded"), within_s=60)
        lost.thaw() if freeze else lost.start()
        clustered.load.assert_all_found()
        _note(f"uploads again after {took:.1f} s, {dict(clustered.load.codes)}, {dict(clustered.load.answers)}")

    def it_goes_on_with_the_next_mysql_and_loses_no_document(self, clustered: Clustered):
        pair, running = clustered.mysql, clustered.load
        with running.running():
            eventually(lambda: len(running.accepted_at) > 5, within_s=60)
            pair.demote()
            eventually(pair.has_caught_up, within_s=30)
            pair.promote()
            moment = time.monotonic()
            eventually(lambda: running.accepted_at[-1] > moment, within_s=30)
            took = running.accepted_at[-1] - moment
            pair.first.kill()
            moment = time.monotonic()
            eventually(lambda: running.accepted_at[-1] > moment + 1, within_s=30)
            eventually(lambda: _answers(running, "200 succeeded"), within_s=60)
        running.assert_all_found()
        _note(f"uploads again after {took:.1f} s, {dict(running.codes)}, {dict(running.answers)}")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMqNodes]:
    try:
        with rabbitmq_nodes(tmp_path_factory.mktemp("rabbitmq")) as found:
            yield found
    except Failure as missing:
        pytest.skip(str(missing))


class DescribeARabbitMqOfThreeNodes:
    def it_counts_the_nodes_that_could_take_over(self, nodes: RabbitMqNodes):
        def counted() -> list[str]:
            return [f"{facts.node} {facts.ready} of {facts.others}" for facts in broker_nodes(nodes.url)]

        ports = [member.wire.port for member in nodes.members if member.wire]
        assert counted() == [f"127.0.0.1:{ports[0]} 2 of 2"]
        nodes.members[0].strike("cut off")
        nodes.members[2].strike("frozen")
        try:
            assert counted() == [f"127.0.0.1:{ports[1]} 0 of 2"]
        finally:
            nodes.members[2].bring_back()
            nodes.bring_back(nodes.members[0])
        eventually(lambda: counted() == [f"127.0.0.1:{ports[0]} 2 of 2"], within_s=60)

    def it_gets_what_is_sent_while_the_senders_node_hangs(self, nodes: RabbitMqNodes):
        """The first message goes to a node that takes its bytes and confirms nothing."""
        with Celery("sender", broker=nodes.url.partition(";")[0], set_as_current=False) as sender:
            sender.conf.update(_sending("ingest"))
            sender.conf.broker_url = nodes.url
            sender.send_task("task", queue="ingest")
            hanging = nodes.members[0]
            hanging.strike("frozen")
            try:
                took_s = []
                for _ in range(3):
                    began = time.monotonic()
                    eventually(lambda: _is_sent(sender), within_s=20)
                    took_s.append(time.monotonic() - began)
            finally:
                hanging.bring_back()
            eventually(lambda: _waiting(sender) >= 4, within_s=20)
        _note(f"sent after {took_s} s")
        assert max(took_s[1:]) < 0.5

    def it_gets_messages_about_queries_while_the_node_hangs_that_leads_their_queue(self, nodes: RabbitMqNodes):
        """Another queue of the same workers has its leader elsewhere. New connections do not wait for the cluster's records."""
        with Celery("sender", broker=nodes.url, set_as_current=False) as sender:
            sender.conf.update(_sending("recall", "answer", "rerank"))
            for queue in ("recall", "answer", "rerank"):
                sender.send_task("task", queue=queue)
            hanging = nodes.leader("recall")
            nodes.bring_back(hanging)  # none hangs: this gives each of the queues another leader
            hanging = nodes.leader("recall")
            hanging.strike("frozen")
            try:
                began = time.monotonic()
                eventually(lambda: _is_sent(sender, "recall"), within_s=20)
                first_s = time.monotonic() - began
                for _ in range(3):
                    with Celery("sender", broker=nodes.url, set_as_current=False) as fresh:
                        fresh.conf.update(_sending("recall", "answer", "rerank"))
                        began = time.monotonic()
                        assert _is_sent(fresh, "recall")
                        assert time.monotonic() - began < 2.5, "one node that says nothing is waited for"
            finally:
                nodes.bring_back(hanging)
            _note(f"sent by another queue after {first_s:.1f} s")
            assert _waiting(sender, "recall") + _waiting(sender, "answer") + _waiting(sender, "rerank") >= 7

    def it_gets_what_is_sent_while_the_sender_reaches_one_node_alone(self, nodes: RabbitMqNodes):
        """The nodes reach each other, and the sender is connected to one that it loses."""
        with Celery("sender", broker=nodes.url, set_as_current=False) as sender:
            sender.conf.update(_sending("ingest"))
            eventually(lambda: _is_sent(sender), within_s=30)
            for reached in nodes.members:
                others = [node for node in nodes.members if node is not reached]
                for node in others:
                    node.strike("cut off")
                try:
                    assert _is_sent(sender)
                finally:
                    for node in others:
                        node.bring_back()

    def it_gets_a_query_whose_senders_connection_breaks(self, nodes: RabbitMqNodes):
        """Its node is lost after the last query, and the sender notices while it sends the next one."""
        environment = {**os.environ, "CHORDWISE_BROKER_URL": nodes.url}
        command = [sys.executable, "-c", _SENDER]
        with subprocess.Popen(command, cwd=ROOT, env=environment, stdin=PIPE, stdout=PIPE, text=True) as sender:
            assert sender.stdin is not None
            assert sender.stdout is not None

            def is_sent() -> str:
                sender.stdin.write("\n")
                sender.stdin.flush()
                return sender.stdout.readline().strip()

            assert is_sent() == "sent"
            for lost in nodes.members:
                lost.strike("cut off")
                try:
                    assert is_sent() == "sent"
                finally:
                    lost.bring_back()
            sender.stdin.close()

    def it_refuses_messages_while_most_nodes_hang(self, nodes: RabbitMqNodes):
        with Celery("sender", broker=nodes.url, set_as_current=False) as sender:
            sender.conf.update(_sending("ingest"))
            eventually(lambda: _is_sent(sender), within_s=30)
            for node in nodes.members[:2]:
                node.strike("frozen")
            try:
                for _ in range(3):
                    began = time.monotonic()
                    assert not _is_sent(sender)
                    assert time.monotonic() - began < 10
            finally:
                for node in nodes.members[:2]:
                    node.bring_back()
            eventually(lambda: _is_sent(sender), within_s=60)


def _sending(*queues: str) -> dict[str, object]:
    """Return the settings by which the product sends messages to these queues."""
    names = ("task_publish_retry", "broker_connection_timeout", "broker_transport_options")
    return {name: producer.conf[name] for name in names} | {
        "task_publish_retry": True,
        "task_publish_retry_policy": retry_policy(3),
        "broker_transport_options": {**producer.conf.broker_transport_options, **options_for_nodes(3)},
        "task_queues": [TaskQueue(name, Exchange(name), routing_key=name) for name in queues],
    }


def _is_sent(sender: Celery, queue: str = "ingest") -> bool:
    try:
        sender.send_task("task", queue=queue)
    except (KombuError, OSError):
        return False
    return True


def _waiting(sender: Celery, queue: str = "ingest") -> int:
    return waiting_messages([queue], sender).get(queue, 0)


def _answers(running: Load, wanted: str) -> bool:
    """Return whether the next query is answered in full."""
    fresh = Load(url=running.url, key=running.key)
    with fresh.client() as client:
        fresh.ask(client)
    return set(fresh.answers) == {wanted}


def _note(figures: str) -> None:
    """Write the figures of a failover into pytest's report of captured logs."""
    logging.getLogger(__name__).warning(figures)
