"""Connections to the broker with shorter waits: a worker retries every four seconds at the latest, a silent AMQP broker is
waited for one second and not asked again within the next, and one with an alarm refuses messages at once. A node that confirms
nothing within a second is left for the next, and a queue that confirms nothing for another one with the same work. A text in a
queue of Redis that is no message is dropped with a log line.
"""

from __future__ import annotations

import base64
import queue
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import structlog
from celery.app.control import Control
from kombu.connection import Connection
from kombu.entity import Queue
from kombu.exceptions import KombuError
from kombu.pidbox import Mailbox
from kombu.transport import TRANSPORT_ALIASES, pyamqp
from kombu.transport import redis as over_redis

from pipeline.database.redis_connections import WatchedConnection, WatchedTlsConnection
from workers.names import QUERY_QUEUES

log = structlog.get_logger(__name__)

_LONGEST_PAUSE_S: Final = 4.0
_FIRST_WAIT_S: Final = 1  # for a message; an end in order waits as long, since Redis may be about to hand one over
_LONGEST_WAIT_S: Final = 4


class PersistentConnection(Connection):
    """A worker's or beat's connection that retries every few seconds, where stock kombu waits half a minute, and that can be
    closed after it was lost."""

    def ensure_connection(self, *args: Any, **kwargs: Any) -> Any:
        """Connect as kombu does, but let the pause between two attempts grow to four seconds only."""
        return super().ensure_connection(*args, **{"interval_max": _LONGEST_PAUSE_S, **kwargs})  # type: ignore[no-untyped-call]

    def maybe_close_channel(self, channel: Any) -> None:
        """Close a channel of a lost connection. One of Redis hands back messages first, and its transport may have lost this
        connection already: Celery takes that AttributeError for a bug and ends the worker."""
        try:
            super().maybe_close_channel(channel)  # type: ignore[no-untyped-call]
        except AttributeError as error:
            log.warning("messages_not_handed_back", error=str(error))


class _MailboxOfConnections(Mailbox):
    """Remote control whose queues have a name of their own for each connection of a worker."""

    def get_queue(self, hostname: str) -> Queue:
        """Return the queue of a worker. Any name does: its exchange gives every message to all queues."""
        queue: Queue = super().get_queue(f"{hostname}.{uuid.uuid4().hex}")  # type: ignore[no-untyped-call]
        return queue


class WorkerControl(Control):  # type: ignore[misc]  # Celery has no types
    """Celery's remote control, which lets a worker of a RabbitMQ cluster go on at another node.

    RabbitMQ keeps that queue for one connection, and while a node is down for those to it: a worker that had gone to the next
    node got RESOURCE_LOCKED there, and ended. In Redis, which keeps the names of queues for good, they stay the same.
    """

    def __init__(self, app: Any = None) -> None:
        if app.conf.broker_url.startswith("amqp"):
            self.Mailbox = _MailboxOfConnections
        super().__init__(app)


class TaskQueue(Queue):
    """A queue that is declared without waiting: its leader may be on a node that hangs. The first message shows whether it is
    there, by its confirmation.

    Messages are sent by the name of the queue. An exchange and a binding would wait for the leader of the cluster's own
    records."""

    def declare(self, nowait: bool = True, channel: Any = None) -> Any:  # noqa: ARG002 - kombu's signature
        """Declare the queue, on Redis with its exchange and binding."""
        if isinstance(channel or self.channel, AmqpChannel):
            return self.queue_declare(nowait=True, channel=channel)  # type: ignore[no-untyped-call]
        return self.declare_all(channel=channel)

    def declare_all(self, channel: Any = None) -> Any:
        """Declare exchange, queue and binding, which takes every right that this user needs."""
        return super().declare(nowait=True, channel=channel)  # type: ignore[no-untyped-call]


ANSWERS_WITHIN_S: Final = 1.0
_LOOKS_AFTER_S: Final = 0.5  # without a confirmation, whether it is the node that hangs or the queue
_LEFT_ALONE_S: Final = 1.0  # after a broker did not answer, or took no message
_ONE_LEFT_ALONE_S: Final = 3.0  # one node of several, one queue
_PROBE: Final = "chordwise.probe"  # the name of no queue
_ALARM: Final = "the broker takes no messages, as it is short of disk space or memory"

# By host and port, in seconds of the monotonic clock.
_silent_until: dict[str, float] = {}
_doubted_at: dict[str, float] = {}  # when a node hung: connections that were made before are left


class BrokerAlarm(KombuError):
    """RabbitMQ takes no messages: it is short of disk space or memory. kombu does not send the message once more."""


class QueueHangs(KombuError):
    """A node confirms messages, but none for this queue: it has no leader. kombu does not send the message once more."""


class _AnnouncedAlarm(ConnectionError):
    """RabbitMQ has announced an alarm on a connection, which was ended. kombu connects anew."""


class BrokerAlarms:
    """The brokers that have an alarm, by host and port, or queues that take nothing. Safe between threads. ``left_alone_s``:
    until one of them is tried again."""

    def __init__(self, *, left_alone_s: float = _LEFT_ALONE_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._look_again_at: dict[str, float] = {}
        self._left_alone_s = left_alone_s
        self._clock = clock
        self._lock = threading.Lock()

    def __contains__(self, host: str) -> bool:
        return host in self._look_again_at

    def note(self, host: str) -> None:
        """Note that a broker took no message a moment ago."""
        self._look_again_at[host] = self._clock() + self._left_alone_s

    def are_recent(self) -> bool:
        """Return whether a broker took no message a moment ago."""
        now = self._clock()
        return any(now < moment for moment in tuple(self._look_again_at.values()))

    def may_be_over(self, host: str) -> bool:
        """Return whether the caller, and nobody else in the next moment, should try this broker again."""
        with self._lock:
            if self._clock() < self._look_again_at.get(host, 0.0):
                return False
            self.note(host)
            return True

    def end(self, host: str) -> None:
        """Forget an alarm that is over."""
        self._look_again_at.pop(host, None)


_alarms = BrokerAlarms()
_hanging = BrokerAlarms(left_alone_s=_ONE_LEFT_ALONE_S)  # queues that confirmed nothing, by name


def retry_policy(nodes: int) -> dict[str, int]:
    """Return kombu's policy for a message that was not accepted: it is sent once more, and by each other node."""
    return {"max_retries": max(1, nodes - 1), "interval_start": 0, "interval_step": 0, "interval_max": 0}


def options_for_nodes(nodes: int) -> dict[str, float]:
    """Return transport options by which a sender whose first node hangs connects to the next. kombu would give up after the
    second that it waits for one."""
    if nodes == 1:
        return {}
    return {"max_retries": nodes - 1, "connect_retries_timeout": nodes * ANSWERS_WITHIN_S, "interval_start": 0}


def refuse_in_alarm() -> None:
    """Raise BrokerAlarm if the broker took no message within the last second, before a connection is made."""
    if _alarms.are_recent():
        raise BrokerAlarm(_ALARM)


class AmqpChannel(pyamqp.Channel):
    """A channel on which the broker confirms every message for a queue, and that publishes nothing while the broker has an
    alarm. A node that hangs takes bytes and confirms none; a queue whose leader hangs confirms none by any node."""

    _confirm_selected: bool  # of py-amqp
    _sent = 0  # messages since the broker began to confirm, which numbers them so

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._unconfirmed: dict[int, tuple[str, Any, dict[str, Any]]] = {}  # queue, message and options of each
        self._rejected = False
        self.events["basic_ack"].add(self._on_confirmed)
        self.events["basic_nack"].add(self._on_rejected)

    def basic_publish(self, message: Any, exchange: str = "", **kwargs: Any) -> Any:
        """Send a message, and wait until a queue has it. Events and the answers of remote control, which have an exchange, are
        only sent. Raises BrokerAlarm, QueueHangs, and errors after which kombu sends it again by the next node."""
        done = self.send(message, exchange=exchange, **kwargs)
        if not exchange:
            self.wait_for_confirms()
        return done

    def create_publish_batch(self, **_: Any) -> _Batch:
        """Begin a batch, as kombu asks: its messages are confirmed together."""
        return _Batch(self)

    def send(self, message: Any, *, exchange: str, **kwargs: Any) -> Any:
        """Send a message without waiting, one about a query by another of its queues if its own hangs. Raises BrokerAlarm: one
        that is sent then would wait in the system's buffers. Raises QueueHangs."""
        if self.connection is not None and self.connection.host in _alarms:
            if not _alarms.may_be_over(self.connection.host):
                raise BrokerAlarm(_ALARM)
            self.connection.probe()
        queue_name = str(kwargs.get("routing_key", ""))
        if not exchange:
            queue_name = kwargs["routing_key"] = self._usable(queue_name)
            if self.connection is not None and self.connection.is_doubted:
                raise self.connection.left("did not confirm another message")
            if not self._confirm_selected:
                self.confirm_select()
                self._confirm_selected = True
        done = super().basic_publish(message, exchange=exchange, **kwargs)
        if self._confirm_selected:
            self._sent += 1
            self._unconfirmed[self._sent] = queue_name, message, {"exchange": exchange, **kwargs}
        return done

    def _usable(self, queue_name: str) -> str:
        """Return the queue, or the first one with the same work that does not hang. Raises QueueHangs."""
        others = [each for each in QUERY_QUEUES if each != queue_name] if queue_name in QUERY_QUEUES else []
        tried = {name for name, *_ in self._unconfirmed.values()}
        for name in (queue_name, *others):
            if name not in _hanging or name in tried or _hanging.may_be_over(name):
                return str(name)
        raise QueueHangs(f"no node confirmed the last message for {queue_name}")

    def wait_for_confirms(self) -> None:
        """Wait until the broker has confirmed all messages, a second for each queue that they may go to. Raises TimeoutError if
        the node says nothing at all, QueueHangs, and ConnectionError if a message is rejected."""
        began, other = time.monotonic(), None
        while self._unconfirmed:
            if self.connection is None:
                raise ConnectionError("the connection was closed before the message was confirmed")
            left_s = began + (ANSWERS_WITHIN_S if other else _LOOKS_AFTER_S) - time.monotonic()
            try:
                self.connection.drain_events(timeout=max(0.001, left_s))
            except TimeoutError:
                if other is not None:
                    self._send_by(other)
                else:
                    other = self.connection.another_channel(within_s=ANSWERS_WITHIN_S - _LOOKS_AFTER_S)
        if other is not None and self.connection is not None:
            other.close()
        if self._rejected:
            self._rejected = False
            raise ConnectionError("the broker rejected the message")

    def _send_by(self, other: AmqpChannel) -> None:
        """Send what no queue has confirmed once more, by other queues and on another channel: the node keeps this one waiting
        for the leader. Each message may come twice; a query counts each part once. Raises as `wait_for_confirms` does."""
        unconfirmed, self._unconfirmed = self._unconfirmed, {}
        for queue_name in {name for name, *_ in unconfirmed.values()}:
            _hanging.note(queue_name)
            log.warning("queue_hangs", queue=queue_name)
        connection = self.connection
        try:
            for _, message, options in unconfirmed.values():
                if not options["exchange"]:
                    other.send(message, **options)
            other.wait_for_confirms()
        finally:
            connection.collect()

    def _on_confirmed(self, number: int, multiple: bool) -> None:
        for each in [each for each in self._unconfirmed if each == number or (multiple and each < number)]:
            queue_name, *_ = self._unconfirmed.pop(each)
            _hanging.end(queue_name)

    def _on_rejected(self, number: int, multiple: bool) -> None:
        self._rejected = True
        self._on_confirmed(number, multiple)


class _Batch:
    """Messages of a channel that are confirmed together; the methods have kombu's names."""

    def __init__(self, channel: AmqpChannel) -> None:
        self.channel = channel

    def publish(self, message: Any, exchange: str = "", **kwargs: Any) -> Any:
        """Send one."""
        return self.channel.send(message, exchange=exchange, **kwargs)

    def flush(self) -> None:
        """Wait for all. Raises as `AmqpChannel.wait_for_confirms` does."""
        self.channel.wait_for_confirms()

    def discard(self) -> None:
        """Do nothing: what was sent is sent."""

    close = discard


class AmqpConnection(pyamqp.Connection):
    """A connection that also limits the reads without a time limit, which wait for the answer to a declaration, and that ends
    when the broker announces an alarm: nothing more is read from it, not even an orderly end."""

    Channel = AmqpChannel

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"on_blocked": self._end_in_alarm, **kwargs})
        self._made_at = time.monotonic()
        self._answers_within_s = ANSWERS_WITHIN_S

    @property
    def is_doubted(self) -> bool:
        """Return whether the broker hung since this connection was made."""
        return self._made_at < _doubted_at.get(self.host, 0.0)

    def another_channel(self, *, within_s: float) -> AmqpChannel:
        """Return a new channel, which a node that works opens at once whatever its queues do. Raises TimeoutError, and notes
        that the node hangs, so that no other connection waits for it as long."""
        try:
            self._answers_within_s = within_s
            opened: AmqpChannel = self.channel()
        except TimeoutError:
            _doubted_at[self.host] = time.monotonic()
            raise
        finally:
            self._answers_within_s = ANSWERS_WITHIN_S
        return opened

    def left(self, reason: str) -> ConnectionError:
        """Return the error of a connection that is ended here: a broker that hangs would be asked for an orderly end."""
        self.collect()
        return ConnectionError(f"{self.host} {reason}")

    def probe(self) -> None:
        """Publish a message that no queue gets, and wait until it is taken. Raises BrokerAlarm."""
        try:
            channel = self.channel()
            message = channel.prepare_message(b"")
            channel.basic_publish_confirm(message, routing_key=_PROBE, confirm_timeout=ANSWERS_WITHIN_S)
        except _AnnouncedAlarm as error:
            raise BrokerAlarm(_ALARM) from error
        channel.close()
        _alarms.end(self.host)

    def _end_in_alarm(self, _reason: str) -> NoReturn:
        """Raise _AnnouncedAlarm. On the next connection, taking messages goes on, and sending is refused."""
        _alarms.note(self.host)
        self.collect()
        raise _AnnouncedAlarm(_ALARM)

    def blocking_read(self, timeout: float | None = None) -> Any:
        """Handle one frame. Raises TimeoutError, an OSError, after which kombu makes a new connection."""
        if timeout is not None:
            return super().blocking_read(timeout)
        try:
            return super().blocking_read(self._answers_within_s)
        except TimeoutError:
            _silent_until[self.host] = time.monotonic() + _LEFT_ALONE_S
            self.collect()
            raise


class AmqpTransport(pyamqp.Transport):
    """kombu's transport over py-amqp, with these connections."""

    Connection = AmqpConnection

    def establish_connection(self) -> Any:
        """Connect, or raise ConnectionError at once while the broker is known to be silent."""
        host = str(self.client.host)  # type: ignore[union-attr]  # a transport that is used has its connection
        if time.monotonic() < _silent_until.get(host, 0.0):
            raise ConnectionError(f"{host} did not answer a moment ago")
        try:
            return super().establish_connection()  # type: ignore[no-untyped-call]
        except TimeoutError:
            is_alone = self.client.cycle is None  # type: ignore[union-attr]
            _silent_until[host] = time.monotonic() + (_LEFT_ALONE_S if is_alone else _ONE_LEFT_ALONE_S)
            raise


class AmqpsTransport(AmqpTransport, pyamqp.SSLTransport):
    """`AmqpTransport` over TLS."""

    def establish_connection(self) -> Any:
        """Connect, and compare the certificate with the present host of several: kombu keeps the name of the first."""
        if isinstance(self.client.ssl, dict) and "server_hostname" in self.client.ssl:  # type: ignore[union-attr]
            self.client.ssl = {**self.client.ssl, "server_hostname": self.client.hostname}  # type: ignore[union-attr]
        return super().establish_connection()


class RedisChannel(over_redis.Channel):
    """A channel that differs from kombu's in three ways: a message that is no JSON does not end the worker, one client serves
    all messages, and waits for a message grow while none comes."""

    _kept: Any = None
    _longest_wait_s = _LONGEST_WAIT_S

    @contextmanager
    def conn_or_acquire(self, client: Any = None) -> Iterator[Any]:
        """Yield this client, or the channel's own."""
        if client is None and (self._kept is None or self._kept.connection_pool is not self.pool):
            self._kept = self._create_client()  # type: ignore[no-untyped-call]
        yield client or self._kept

    def waiting(self, queue: str) -> int:
        """Return how many messages a queue holds."""
        with self.conn_or_acquire() as client:
            return int(client.llen(queue))

    def _brpop_read(self, **options: Any) -> Any:
        try:
            delivered = super()._brpop_read(**options)  # type: ignore[no-untyped-call]
            self.brpop_timeout = _FIRST_WAIT_S
            return delivered
        except queue.Empty:
            self.brpop_timeout = min(2 * self.brpop_timeout, self._longest_wait_s)
            raise
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            log.error("message_dropped", reason=type(error).__name__)
            raise queue.Empty from None


class _LoopThatKnowsReaders:
    """A worker's loop that adds a socket once. kombu adds each of its sockets again whenever the loop has run, and the system
    refuses it each time: 4 % of the processor time of a query worker."""

    def __init__(self, loop: Any) -> None:
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def add_reader(self, fd: int, callback: Callable[..., object], *args: Any) -> None:
        """Call ``callback`` when ``fd`` can be read."""
        if self._loop.readers.get(fd) != (callback, args):
            self._loop.add_reader(fd, callback, *args)


class RedisTransport(over_redis.Transport):
    """kombu's transport over Redis, which delivers only what has the fields of a message."""

    Channel = RedisChannel

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        """Let the loop of a worker wait for messages, but not wake once a second for queues that expire: a worker takes tasks
        from none."""
        super().register_with_event_loop(connection, _LoopThatKnowsReaders(loop))  # type: ignore[no-untyped-call]
        if (timer := getattr(self.cycle, "_binding_expiry_tref", None)) is not None:  # a name of kombu's own
            timer.cancel()

    def _deliver(self, message: Any, queue: str) -> Any:
        if flaw := envelope_flaw(message):
            log.error("message_dropped", reason=flaw, queue=queue)
            return None
        return super()._deliver(message, queue)  # type: ignore[no-untyped-call]


class SentinelChannel(RedisChannel, over_redis.SentinelChannel):
    """The same to a Redis that sentinels name."""

    _longest_wait_s = _FIRST_WAIT_S  # a primary server that is frozen is noticed after this and `health_check_interval`
    connection_class = WatchedConnection
    connection_class_ssl = WatchedTlsConnection  # type: ignore[assignment]  # kombu has a class of its own


class SentinelTransport(RedisTransport, over_redis.SentinelTransport):
    """The same over a Redis that sentinels name: each connection goes to the server that they call primary."""

    Channel = SentinelChannel


def envelope_flaw(message: Any) -> str | None:
    """Return why a value from a queue is no message as kombu writes it, or None."""
    if not isinstance(message, dict):
        return "it is no object"
    properties, body = message.get("properties"), message.get("body")
    if not isinstance(properties, dict) or not isinstance(properties.get("delivery_tag"), str):
        return "it has no delivery tag"
    delivery = properties.get("delivery_info")
    if not isinstance(delivery, dict) or not all(isinstance(delivery.get(k), str) for k in ("exchange", "routing_key")):
        return "it does not say where it was sent"
    if not isinstance(body, str) or not isinstance(message.get("headers"), dict):
        return "it has no body or no headers"
    for name in ("content-type", "content-encoding"):
        if not isinstance(message.get(name), str | None):
            return f"its {name} is no text"
    encoding = properties.get("body_encoding")
    if encoding not in (None, "base64"):
        return "its body has an unknown encoding"
    try:
        if encoding:
            base64.b64decode(body)
    except ValueError:
        return "its body is not base64"
    return None


def use_these() -> None:
    """Make the schemes of Redis and AMQP mean these transports from now on."""
    TRANSPORT_ALIASES["redis"] = TRANSPORT_ALIASES["rediss"] = f"{__name__}:RedisTransport"
    TRANSPORT_ALIASES["sentinel"] = f"{__name__}:SentinelTransport"
    TRANSPORT_ALIASES["amqp"] = TRANSPORT_ALIASES["pyamqp"] = f"{__name__}:AmqpTransport"
    TRANSPORT_ALIASES["amqps"] = f"{__name__}:AmqpsTransport"
