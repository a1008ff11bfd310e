"""kombu's Redis transport with one client for a channel's commands, where stock makes a new one for each.

A client holds nothing but its pool. Making one cost more than sending with it: 5 % of a query's processor time.
"""

from __future__ import annotations

from typing import Any, Final

from kombu.transport import TRANSPORT_ALIASES
from kombu.transport import redis as stock

_NAME: Final = f"{__name__}:Transport"


class Channel(stock.Channel):
    """A channel that remembers its client as long as its pool is the same: a lost connection brings a new pool."""

    _made: tuple[Any, Any] | None = None

    def _create_client(self, asynchronous: bool = False) -> Any:
        if asynchronous:  # these hold a connection each, and are made once
            return super()._create_client(asynchronous=True)  # type: ignore[no-untyped-call]
        pool, known = self.pool, self._made
        if known is None or known[0] is not pool:
            known = self._made = (pool, super()._create_client())  # type: ignore[no-untyped-call]
        return known[1]


class Transport(stock.Transport):
    """The same transport, with these channels."""

    Channel = Channel


def use_for_redis() -> None:
    """Have ``redis://`` and ``rediss://`` mean this transport from now on."""
    TRANSPORT_ALIASES["redis"] = TRANSPORT_ALIASES["rediss"] = _NAME
