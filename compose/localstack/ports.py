"""Loopback ports: the last run's, else the usual one, else any free one; each reserved against other stacks."""

import fcntl
import random
import socket
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

from .progress import Failure

# Below the range from which Linux takes the ports of outgoing connections, so that none of those gets in between.
_CANDIDATES = range(20_000, 32_000)


class PortTaken(Failure):
    """Another program took a port between our check and the start of our server."""

    def __init__(self, server: str, *, log: Path) -> None:
        super().__init__(f"{server} cannot listen: its port is in use by another program", log=log)
        self.server = server


class Reservations:
    """The ports that this process has reserved. No other stack of this machine can reserve one of them until ``close``
    or the end of this process, whether or not a server listens there."""

    def __init__(self) -> None:
        self._held: dict[int, ExitStack] = {}

    def take(self, port: int) -> bool:
        """Reserve the port unless another stack has it or a server listens there. Return whether it is now ours."""
        with ExitStack() as holding:
            if port in self._held or not _lock(port, holding) or not is_free(port):
                return False
            self._held[port] = holding.pop_all()
        return True

    def close(self) -> None:
        """Release all ports."""
        for holding in self._held.values():
            holding.close()
        self._held.clear()


def _lock(port: int, holding: ExitStack) -> bool:
    """Lock the port number among the stacks of this machine; the system releases the lock when the process ends."""
    name = f"chordwise-port-{port}"
    if sys.platform == "linux":  # a name without a file, of the same network namespace as the port itself
        reservation = holding.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        try:
            reservation.bind(f"\0{name}")
        except OSError:
            return False
        return True
    file = holding.enter_context((Path(tempfile.gettempdir()) / name).open("w"))
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def wished(port: str, *, variable: str) -> int | None:
    """Return the number in ``variable``, None if it is empty. Raises Failure for an invalid port."""
    if not port:
        return None
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65_535):
        raise Failure(f"{variable} is {port!r}, but a port is a number from 1 to 65535.")
    return int(port)


def is_free(port: int) -> bool:
    """Return whether a server could listen on 127.0.0.1:``port`` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port whose old connections linger is free
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def choose(
    preferred: Iterable[int | None], taken: set[int], free: Callable[[int], bool] = is_free, seed: int | None = None
) -> int:
    """Return the first of ``preferred`` that is free and not in ``taken``, else a random one, and add it to ``taken``."""
    randomly = random.Random(seed)
    for port in (*preferred, *(randomly.choice(_CANDIDATES) for _ in range(1000))):
        if port and port not in taken and free(port):
            taken.add(port)
            return port
    raise OSError("no free loopback port was found")
