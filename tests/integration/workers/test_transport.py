"""Messages through Redis: they arrive, and go on arriving after the connection was lost."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, suppress
from queue import Empty

import pytest
import redis
from kombu import Connection
from pydantic import SecretStr
from sqlalchemy import make_url

from api_gateway.http.metrics import FleetMetrics
from api_gateway.resources.doctor import ask_every_worker
from pipeline.metrics.queue_depth_store import SENT_AT
from pipeline.resources import Resources
from pipeline.settings import Settings
from tests.conftest import redis_of_its_own
from tests.support.servers.proxy import Proxy
from workers.producer import producer
from workers.roles import ROLES


@pytest.fixture
def url(settings) -> str:
    """A database that no worker takes messages from."""
    address = make_url(settings.redis_url.get_secret_value()).set(database="15")
    return address.render_as_string(hide_password=False)


@pytest.fixture
def connection(url: str) -> Iterator[Connection]:
    with Connection(url) as found:
        yield found


def _taken(connection: Connection, queue: str, count: int) -> list[object]:
    taken = []
    with connection.SimpleQueue(queue) as simple:
        for _ in range(count):
            message = simple.get(timeout=5)
            taken.append(message.payload)
            message.ack()
        simple.queue.delete()
    return taken


class DescribeTheTransport:
    def it_carries_messages_in_order(self, connection):
        name = f"t-{uuid.uuid4().hex}"
        with connection.SimpleQueue(name) as simple:
            for number in range(5):
                simple.put({"number": number})
        assert _taken(connection, name, 5) == [{"number": number} for number in range(5)]

    def it_carries_them_after_every_connection_was_lost(self, url):
        name, server = f"t-{uuid.uuid4().hex}", make_url(url)
        with Proxy(server.host or "", server.port or 6379) as proxy:
            address = server.set(host="127.0.0.1", port=proxy.port).render_as_string(hide_password=False)
            with Connection(address) as connection:
                with connection.SimpleQueue(name) as simple:
                    simple.put({"number": 1})
                proxy.cut()
                proxy.heal()
                with connection.SimpleQueue(name) as simple:
                    simple.put({"number": 2})
                assert _taken(connection, name, 2) == [{"number": 1}, {"number": 2}]


class DescribeTheSignalToScaleBy:
    def it_rises_while_the_oldest_message_waits_and_falls_when_it_is_taken(self, settings: Settings):
        with (
            redis_of_its_own(settings) as url,
            redis.Redis.from_url(url) as broker,
            Connection(url) as connection,
            connection.SimpleQueue("answer") as answers,
        ):
            use = Resources(settings.model_copy(update={"redis_url": SecretStr(url)}))

            def waits() -> dict[str, float]:
                fleet = FleetMetrics()
                fleet.read(use, broker)
                [found] = [family for family in fleet.collect() if family.name == "chordwise_role_oldest_seconds"]
                return {sample.labels["role"]: sample.value for sample in found.samples}

            assert waits() == dict.fromkeys(ROLES, 0.0)
            now = time.time()
            for age_s in (7.0, *[0.0] * 50):
                answers.put({}, headers={SENT_AT: now - age_s})
            first = waits()
            assert first["queries"] == pytest.approx(7.0, abs=2.0)
            assert first["ingest"] == 0.0
            time.sleep(0.2)
            assert waits()["queries"] >= first["queries"] + 0.2
            answers.get(timeout=5).ack()
            assert waits()["queries"] < 5.0  # fifty messages, and none of them old
            answers.clear()
            assert waits() == dict.fromkeys(ROLES, 0.0)
            use.close()


class DescribeAnIdleConsumer:
    def it_waits_longer_for_a_message_while_none_comes(self, url):
        name = f"t-{uuid.uuid4().hex}"
        with closing(redis.Redis.from_url(url)) as client, client.monitor() as monitor:
            with Connection(url) as connection, connection.SimpleQueue(name) as simple:
                with suppress(Empty):
                    simple.get(timeout=4)  # ends in the third wait
                with Connection(url) as other, other.SimpleQueue(name) as sender:
                    sender.put({"number": 1})
                simple.get(timeout=5).ack()
                with suppress(Empty):
                    simple.get(timeout=0.1)
                simple.queue.delete()
            client.echo(name)
            waits = []
            for seen in monitor.listen():
                command = seen["command"].split(" ")
                if command == ["ECHO", name]:
                    break
                if command[:2] == ["BRPOP", name]:
                    waits.append(int(command[-1]))
        assert (waits[:3], max(waits), waits[-1]) == ([1, 2, 4], 4, 1), waits


@pytest.mark.thorough
class DescribeAWorkerForQueries:
    def it_writes_nothing_down_of_what_it_took(self):
        told = {worker.name.partition("@")[0]: worker.visibility_timeout_s for worker in ask_every_worker(producer)}
        assert told["queries"] is told["queries-2"] is None
        assert told["ingest"] == told["upkeep"] == 3600

    def it_hands_back_what_it_had_not_begun_when_it_ends(self, url):
        name = f"t-{uuid.uuid4().hex}"
        with Connection(url, transport_options={"ack_emulation": False}) as ending, ending.SimpleQueue(name) as simple:
            for number in range(2):
                simple.put({"number": number})
            assert simple.get(timeout=5).payload == {"number": 0}  # taken, and never begun
            with redis.Redis.from_url(url) as client:
                assert client.hlen("unacked") == 0
        with Connection(url) as other:
            assert _taken(other, name, 2) == [{"number": 1}, {"number": 0}]


class DescribeBells:
    def it_leaves_no_more_than_the_workers_need_when_nobody_takes_them(self, settings: Settings):
        """A flood of small jobs while no worker runs. Each notification serves any tenant."""
        ringing = (
            "from workers.dispatch import notify_workers\n"
            "print(all(notify_workers(f'tenant-{n % 7}', f'job-{n}') for n in range(400)))"
        )
        with redis_of_its_own(settings) as url, closing(redis.Redis.from_url(url)) as client:
            environment = os.environ | {"CHORDWISE_REDIS_URL": url, "CHORDWISE_BROKER_URL": url}
            ended = subprocess.run(
                [sys.executable, "-c", ringing], env=environment, capture_output=True, text=True, check=True, timeout=60
            )
            assert ended.stdout.split() == ["True"]
            assert client.llen("ingest") == 256
            client.delete("ingest")
