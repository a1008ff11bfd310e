"""Connections to the broker: what stock kombu and py-amqp would wait for, and how long ours wait."""

from __future__ import annotations

import inspect
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from kombu.asynchronous.hub import Hub
from kombu.connection import Connection
from kombu.transport import pyamqp
from kombu.transport.redis import Channel, QoS

from workers.transport import (
    AmqpChannel,
    AmqpConnection,
    BrokerAlarm,
    BrokerAlarms,
    PersistentConnection,
    QueueHangs,
    RedisTransport,
    refuse_in_alarm,
)


def _lost_channel() -> Channel:
    """Return a channel of a Redis with a message that was not acknowledged, after its transport was closed."""
    transport = SimpleNamespace(client=None, cycle=SimpleNamespace(discard=lambda _channel: None))
    channel = Channel.__new__(Channel)
    channel.__dict__ |= {"connection": transport, "closed": False, "_consumers": set()}
    channel._qos = QoS(channel)
    channel._qos._on_collect.cancel()  # it would hand back the message at this process's end
    channel._qos._delivered["tag"] = "message"
    return channel


class DescribeAPersistentConnection:
    def it_pauses_four_seconds_at_most(self):
        pauses: list[Any] = []

        class Broker(Connection):
            def ensure_connection(self, *args: Any, **kwargs: Any) -> None:
                pauses.append(kwargs["interval_max"])

        class OurBroker(PersistentConnection, Broker):
            pass

        OurBroker("memory://").ensure_connection()
        assert pauses == [4.0]

    def it_closes_a_channel_that_has_lost_its_connection(self):
        PersistentConnection("memory://").maybe_close_channel(_lost_channel())

    def it_is_needed_while_kombu_raises_what_ends_a_worker(self):
        """Remove the method when this fails: kombu closes such a channel."""
        with pytest.raises(AttributeError):
            Connection("memory://").maybe_close_channel(_lost_channel())

    def it_is_needed_while_kombu_pauses_for_half_a_minute(self):
        """Remove the class when this fails, or when Celery has a setting for the pause."""
        assert inspect.signature(Connection._ensure_connection).parameters["interval_max"].default == 30


class SilentTransport:
    """A socket on which nothing arrives; it notes how long it was to be waited for."""

    def __init__(self) -> None:
        self.waits: list[float | None] = []
        self.closed = False

    @contextmanager
    def having_timeout(self, timeout: float | None) -> Iterator[None]:
        self.waits.append(timeout)
        yield

    def read_frame(self) -> Any:
        raise TimeoutError

    def close(self) -> None:
        self.closed = True


def waits_of(kind: type[Any]) -> list[float | None]:
    connection = kind(host="broker:5672")
    connection._transport = transport = SilentTransport()
    with pytest.raises(TimeoutError):
        connection.blocking_read()
    return transport.waits


class DescribeAnAmqpConnection:
    def it_waits_a_second_for_a_silent_broker(self):
        assert waits_of(AmqpConnection) == [1.0]

    def it_is_needed_while_py_amqp_waits_for_ever(self):
        """Remove the class when this fails: py-amqp limits its reads itself."""
        assert waits_of(pyamqp.Connection) == [None]


def silent_channel(connection: AmqpConnection) -> AmqpChannel:
    """Return a channel to a broker that takes bytes and says nothing more, since the channel was opened."""
    connection._transport = SilentTransport()
    connection._frame_writer = lambda *_: None
    connection.client_properties["capabilities"] = {}
    channel = AmqpChannel(connection, 1)
    channel._confirm_selected = True
    return channel


class Node:
    """A node of RabbitMQ that opens channels, and confirms no message for the queues that hang. ``took``: the queues of the
    messages that it was sent. ``until_looks``: how often a client must have found nothing before all are confirmed."""

    def __init__(self, *, hangs: set[str], until_looks: int | None = None) -> None:
        self.took: list[str] = []
        self.closed = False
        self._hangs, self._until_looks = hangs, until_looks
        self._looks = 0
        self._confirmable: list[tuple[AmqpChannel, int]] = []
        self._numbers: dict[AmqpChannel, int] = {}
        connection = AmqpConnection(host="node:5672")
        first = silent_channel(connection)
        self._channels = [first]
        connection.channel = self._open
        connection.drain_events = self._confirm
        connection.collect = self._close
        connection._frame_writer = self._take

    def channel(self) -> AmqpChannel:
        return self._channels[0]

    def _open(self) -> AmqpChannel:
        opened = AmqpChannel(self._channels[0].connection, len(self._channels) + 1)
        opened._confirm_selected = True
        opened.close = lambda: None
        self._channels.append(opened)
        return opened

    def _take(self, _type: int, number: int, _method: Any, arguments: bytes, content: Any) -> None:
        channel = self._channels[number - 1]
        self._numbers[channel] = self._numbers.get(channel, 0) + 1
        size = arguments[3]
        self.took.append(arguments[4 : 4 + size].decode())
        if self.took[-1] not in self._hangs or self._until_looks is not None:
            self._confirmable.append((channel, self._numbers[channel]))

    def _confirm(self, **_: Any) -> None:
        if not self._confirmable or self._looks < (self._until_looks or 0):
            self._looks += 1
            raise TimeoutError
        channel, number = self._confirmable.pop(0)
        channel._on_basic_ack(number, False)

    def _close(self) -> None:
        self.closed = True


class Hanging(BrokerAlarms):
    """Queues that hang, with a clock that the test turns."""

    def __init__(self) -> None:
        self.now = 100.0
        super().__init__(left_alone_s=3.0, clock=lambda: self.now)


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Hanging:
    made = Hanging()
    monkeypatch.setattr("workers.transport._hanging", made)
    return made


class DescribeAnAmqpChannel:
    def it_waits_until_every_message_for_a_queue_is_confirmed(self):
        channel = silent_channel(AmqpConnection(host="confirming:5672"))
        connection = channel.connection
        confirmed = iter([(2, False), (1, True), (3, False)])
        connection.drain_events = lambda **_: channel._on_basic_ack(*next(confirmed))
        batch = channel.create_publish_batch(max_size=9)
        for _ in range(3):
            batch.publish(channel.prepare_message(b""), routing_key="recall")
        batch.flush()
        assert next(confirmed, None) is None
        assert not connection.is_doubted

    def it_sends_by_another_connection_what_was_refused(self):
        channel = silent_channel(AmqpConnection(host="refusing:5672"))
        channel.connection.drain_events = lambda **_: channel._on_basic_nack(1, False)
        with pytest.raises(AmqpConnection.recoverable_connection_errors):
            channel.basic_publish(channel.prepare_message(b""), routing_key="recall")

    def it_leaves_a_node_that_says_nothing_on_all_connections(self):
        first, second, elsewhere = (
            silent_channel(AmqpConnection(host=host)) for host in ("hanging:5672", "hanging:5672", "sound:5672")
        )
        transport = first.connection.transport
        with pytest.raises(TimeoutError):
            first.basic_publish(first.prepare_message(b""), routing_key="recall")
        assert transport.closed, "an orderly end would be waited for"
        assert second.connection.is_doubted
        with pytest.raises(AmqpConnection.recoverable_connection_errors):
            second.send(second.prepare_message(b""), exchange="", routing_key="recall")
        assert not elsewhere.connection.is_doubted
        assert not AmqpConnection(
            host="hanging:5672"
        ).is_doubted  # one that is made now may be to a server that is back

    def it_sends_what_a_queue_does_not_confirm_by_the_next_one_with_the_same_work(self, hanging):
        node = Node(hangs={"recall", "answer"})
        channel = node.channel()
        batch = channel.create_publish_batch(max_size=9)
        for _ in range(2):
            batch.publish(channel.prepare_message(b""), routing_key="recall")
        batch.flush()
        assert node.took == ["recall", "recall", "answer", "answer", "rerank", "rerank"]
        assert "recall" in hanging
        assert node.closed, "the node keeps the first channel waiting for the leader"
        another = Node(hangs={"recall"})
        later = another.channel()
        later.basic_publish(later.prepare_message(b""), routing_key="recall")
        assert another.took == ["rerank"]

    def it_refuses_messages_at_once_for_a_queue_that_confirms_none_and_has_no_other(self, hanging):
        node = Node(hangs={"ingest"})
        channel = node.channel()
        with pytest.raises(QueueHangs):
            channel.basic_publish(channel.prepare_message(b""), routing_key="ingest")
        another = Node(hangs={"ingest"})
        later = another.channel()
        with pytest.raises(QueueHangs):
            later.send(later.prepare_message(b""), exchange="", routing_key="ingest")
        later.basic_publish(later.prepare_message(b""), routing_key="upkeep")
        assert another.took == ["upkeep"]

    def it_tries_such_a_queue_again_with_a_whole_batch(self, hanging):
        hanging.note("ingest")
        hanging.now += 3.0
        node = Node(hangs=set())
        channel = node.channel()
        batch = channel.create_publish_batch(max_size=9)
        for _ in range(2):
            batch.publish(channel.prepare_message(b""), routing_key="ingest")
        batch.flush()
        assert "ingest" not in hanging

    def it_goes_on_with_a_node_that_is_slow(self):
        node = Node(hangs={"recall"}, until_looks=1)
        channel = node.channel()
        channel.basic_publish(channel.prepare_message(b""), routing_key="recall")
        assert node.took == ["recall"]
        assert not node.closed

    def it_does_not_wait_for_events(self):
        channel = silent_channel(AmqpConnection(host="events:5672"))
        channel.basic_publish(channel.prepare_message(b""), exchange="celeryev", routing_key="task.recall")
        assert channel.connection.transport.waits == [None]

    def it_is_needed_while_py_amqp_waits_for_each_message_or_none(self):
        """Remove the batch when this fails: py-amqp confirms messages together."""
        assert not hasattr(pyamqp.Channel, "create_publish_batch")


class DescribeBrokerAlarms:
    def it_has_one_caller_a_second_try_the_broker_again(self):
        now = 100.0
        alarms = BrokerAlarms(clock=lambda: now)
        assert not alarms.are_recent()
        alarms.note("broker:5672")
        assert ("broker:5672" in alarms, alarms.are_recent(), alarms.may_be_over("broker:5672")) == (True, True, False)
        now = 101.0
        assert not alarms.are_recent()
        assert [alarms.may_be_over("broker:5672") for _ in range(2)] == [True, False]
        alarms.end("broker:5672")
        assert ("broker:5672" in alarms, alarms.are_recent()) == (False, False)


class DescribeAnAnnouncedAlarm:
    def it_ends_the_connection_and_refuses_the_next_message(self, monkeypatch):
        monkeypatch.setattr("workers.transport._alarms", BrokerAlarms())
        connection = AmqpConnection(host="broker:5672")
        connection._transport = transport = SilentTransport()
        refuse_in_alarm()
        with pytest.raises(ConnectionError):  # kombu connects anew, so that a worker goes on taking messages
            connection._on_blocked()
        assert transport.closed
        with pytest.raises(BrokerAlarm):
            refuse_in_alarm()
        another = AmqpConnection(host="broker:5672")
        with pytest.raises(BrokerAlarm):
            another.Channel.send(SimpleNamespace(connection=another), "message", exchange="")

    def it_is_needed_while_py_amqp_ignores_it(self):
        """Remove the methods when this fails: py-amqp refuses messages while the broker has an alarm."""
        pyamqp.Connection(host="broker:5672")._on_blocked()


class CountingPoller:
    """The poller of a loop, with a count of the calls to watch a socket."""

    def __init__(self, poller: Any) -> None:
        self._poller, self.asked = poller, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._poller, name)

    def register(self, fd: int, flags: int) -> Any:
        self.asked += 1
        return self._poller.register(fd, flags)


class DescribeALoopThatWaitsForRedis:
    @pytest.fixture
    def hub(self) -> Iterator[Hub]:
        loop = Hub()
        yield loop
        loop.close()

    @pytest.fixture
    def listening(self) -> Iterator[socket.socket]:
        ours, its = socket.socketpair()
        with ours, its:
            yield ours

    @pytest.fixture
    def poller(self, hub: Hub, listening: socket.socket) -> CountingPoller:
        """The poller of a loop with a transport that listens on one socket."""
        hub.poller = poller = CountingPoller(hub.poller)
        transport = RedisTransport(SimpleNamespace(transport_options={}))
        transport.register_with_event_loop(SimpleNamespace(client=SimpleNamespace(transport_options={})), hub)
        transport.cycle._fd_to_chan[listening.fileno()] = (None, "LISTEN")
        return poller

    def _turn(self, hub: Hub) -> None:
        for call in tuple(hub.on_tick):
            call()

    def it_is_told_once_to_watch_a_socket(self, hub, poller):
        for _ in range(3):
            self._turn(hub)
        assert poller.asked == 1

    def it_is_told_again_after_the_socket_was_removed(self, hub, poller, listening):
        self._turn(hub)
        hub.remove(listening.fileno())
        self._turn(hub)
        assert poller.asked == 2
        assert listening.fileno() in hub.readers
