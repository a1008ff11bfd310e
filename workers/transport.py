"""Connections to the broker with shorter waits: a worker retries every four seconds at the latest, and a silent AMQP
broker is waited for one second and not asked again within the next."""

from __future__ import annotations

import time
from typing import Any, Final

from kombu.connection import Connection
from kombu.transport import TRANSPORT_ALIASES, pyamqp

_LONGEST_PAUSE_S: Final = 4.0


class PersistentConnection(Connection):
    """A worker's or beat's connection that retries every few seconds, where stock kombu waits half a minute."""

    def ensure_connection(self, *args: Any, **kwargs: Any) -> Any:
        """Connect as kombu does, but let the pause between two attempts grow to four seconds only."""
        return super().ensure_connection(*args, **{"interval_max": _LONGEST_PAUSE_S, **kwargs})  # type: ignore[no-untyped-call]


ANSWERS_WITHIN_S: Final = 1.0
_LEFT_ALONE_S: Final = 1.0  # after a broker did not answer

_silent_until: dict[str, float] = {}  # by host and port, in seconds of the monotonic clock


class AmqpConnection(pyamqp.Connection):
    """A connection that also limits the reads without a time limit, which wait for the answer to a declaration."""

    def blocking_read(self, timeout: float | None = None) -> Any:
        """Handle one frame. Raises TimeoutError, an OSError, after which kombu makes a new connection."""
        if timeout is not None:
            return super().blocking_read(timeout)
        try:
            return super().blocking_read(ANSWERS_WITHIN_S)
        except TimeoutError:
            _silent_until[self.host] = time.monotonic() + _LEFT_ALONE_S
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
            _silent_until[host] = time.monotonic() + _LEFT_ALONE_S
            raise


class AmqpsTransport(AmqpTransport, pyamqp.SSLTransport):
    """`AmqpTransport` over TLS."""

    def establish_connection(self) -> Any:
        """Connect, and compare the certificate with the present host of several: kombu keeps the name of the first."""
        if isinstance(self.client.ssl, dict) and "server_hostname" in self.client.ssl:  # type: ignore[union-attr]
            self.client.ssl = {**self.client.ssl, "server_hostname": self.client.hostname}  # type: ignore[union-attr]
        return super().establish_connection()


def use_for_amqp() -> None:
    """Make ``amqp://``, ``pyamqp://`` and ``amqps://`` mean these transports from now on."""
    TRANSPORT_ALIASES["amqp"] = TRANSPORT_ALIASES["pyamqp"] = f"{__name__}:AmqpTransport"
    TRANSPORT_ALIASES["amqps"] = f"{__name__}:AmqpsTransport"
