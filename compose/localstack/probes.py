"""Readiness probes: a line in the log, or one HTTP request."""

import http.client
import json
import re
from collections.abc import Callable
from pathlib import Path

Probe = Callable[[Path, int], bool]


def log_says(pattern: str) -> Probe:
    """Return a probe that is ready once a line of this start matches ``pattern``, also in a log emptied since then."""
    wanted = re.compile(pattern.encode())

    def probe(log: Path, offset: int) -> bool:
        with log.open("rb") as file:
            file.seek(offset if offset <= log.stat().st_size else 0)
            return wanted.search(file.read(4_000_000)) is not None

    return probe


def answers(port: int, path: str) -> Probe:
    """Return a probe that is ready once ``GET path`` on this loopback port answers 200."""
    return lambda _log, _offset: get(port, path)[0] == 200


def answers_as(port: int, installation_id: str) -> Probe:
    """Return a probe that is ready once the gateway of this installation, and no other, is ready on this port."""

    def probe(_log: Path, _offset: int) -> bool:
        return installation_at(port) == installation_id and get(port, "/readyz")[0] == 200

    return probe


def installation_at(port: int) -> str | None:
    """Return the installation id that the gateway on this loopback port reports; None if no gateway answers."""
    status, body = get(port, "/healthz")
    if status != 200:
        return None
    try:
        health = json.loads(body)
    except ValueError:
        return None
    installation_id = health.get("installation_id") if isinstance(health, dict) else None
    return installation_id if isinstance(installation_id, str) else None


def key_status(port: int, key: str) -> int:
    """Return the status of a real call with this key to the gateway on this port: 200 if the key works, 0 without answer."""
    return get(port, "/v1/namespaces?limit=1", key=key, timeout_s=30.0)[0]


def get(port: int, path: str, *, key: str = "", timeout_s: float = 1.0) -> tuple[int, bytes]:
    """Return the status and the body of ``GET path`` on this loopback port; status 0 if no server answers in time."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {key}"} if key else {})
        answer = connection.getresponse()
        return answer.status, answer.read(65_536)
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()
