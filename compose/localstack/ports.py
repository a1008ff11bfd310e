"""Loopback ports: the usual one when it is free, else any free one."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Iterable

from .progress import Failure

# Below the range from which Linux takes the ports of outgoing connections, so that none of those gets in between.
_CANDIDATES = range(20_000, 32_000)


def wished(port: str, *, variable: str) -> int | None:
    """The number that ``variable`` asks for, None if it is empty. Raises Failure when no port has that number."""
    if not port:
        return None
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65_535):
        raise Failure(f"{variable} is {port!r}, but a port is a number from 1 to 65535.")
    return int(port)


def is_free(port: int) -> bool:
    """Whether a server could listen on 127.0.0.1:``port`` now."""
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
    """The first of ``preferred`` that is free and not in ``taken``, else a random free one; it is added to ``taken``."""
    randomly = random.Random(seed)
    for port in (*preferred, *(randomly.choice(_CANDIDATES) for _ in range(1000))):
        if port and port not in taken and free(port):
            taken.add(port)
            return port
    raise OSError("no free loopback port was found")
