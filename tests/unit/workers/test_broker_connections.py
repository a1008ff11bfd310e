"""Connections to the broker: what stock kombu and py-amqp would wait for, and how long ours wait."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kombu.connection import Connection
from kombu.transport import pyamqp

from workers.transport import AmqpConnection, PersistentConnection


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

    def it_is_needed_while_kombu_pauses_for_half_a_minute(self):
        """Remove the class when this fails, or when Celery has a setting for the pause."""
        assert inspect.signature(Connection._ensure_connection).parameters["interval_max"].default == 30


class SilentTransport:
    """A socket on which nothing arrives; it notes how long it was to be waited for."""

    def __init__(self) -> None:
        self.waits: list[float | None] = []

    @contextmanager
    def having_timeout(self, timeout: float | None) -> Iterator[None]:
        self.waits.append(timeout)
        yield

    def read_frame(self) -> Any:
        raise TimeoutError


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
