"""Cheap answers to "is it ready yet?": a line in the log, or one HTTP request."""

from __future__ import annotations

import http.client
import re
from collections.abc import Callable
from pathlib import Path

Probe = Callable[[Path, int], bool]


def log_says(pattern: str) -> Probe:
    """Ready once a line written since this start matches ``pattern``."""
    wanted = re.compile(pattern.encode())

    def probe(log: Path, offset: int) -> bool:
        with log.open("rb") as file:
            file.seek(offset)
            return wanted.search(file.read(4_000_000)) is not None

    return probe


def answers(port: int, path: str) -> Probe:
    """Ready once ``GET path`` on this loopback port is answered with 200."""

    def probe(_log: Path, _offset: int) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
        try:
            connection.request("GET", path)
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    return probe
