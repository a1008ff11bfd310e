"""The address of the server and the key, from the environment or the file of the local stack."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

URL = "CHORDWISE_URL"
API_KEY = "CHORDWISE_API_KEY"
ADMIN_KEY = "CHORDWISE_ADMIN_KEY"
LOCAL_ENV = Path(".local/env")
LOCAL_STACK_ENV = Path(".local/stacks/up/env")  # the same stack's file for its operator


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """An address and a key, None where unknown. ``origin`` describes in words where the address was found."""

    url: str | None
    api_key: str | None = field(repr=False)
    origin: str = "the environment"


def from_environment(environment: Mapping[str, str] = os.environ) -> Connection:
    """Read CHORDWISE_URL and CHORDWISE_API_KEY; empty counts as not set."""
    return Connection(
        url=environment.get(URL, "").strip() or None, api_key=environment.get(API_KEY, "").strip() or None
    )


def discover(
    environment: Mapping[str, str] = os.environ, local_env: Path = LOCAL_ENV, checkout: Path | None = None
) -> Connection:
    """Read the environment, completed by the file that ``make up`` writes: the one below the current directory, else
    the one of the checkout whose virtual environment runs this.

    The file's key is used for the file's own address only: it must not be sent to another server.
    """
    server = from_environment(environment)
    if server.url and server.api_key:
        return server
    if not local_env.is_file():
        local_env = _checkout(checkout) / LOCAL_ENV
    local = read_assignments(local_env)
    url = server.url or local.get(URL)
    key = server.api_key or (local.get(API_KEY) if url == local.get(URL) else None)
    return Connection(url=url, api_key=key, origin=server.origin if server.url else str(local_env))


def as_operator(
    server: Connection,
    environment: Mapping[str, str] = os.environ,
    stack_env: Path = LOCAL_STACK_ENV,
    checkout: Path | None = None,
) -> Connection:
    """Return the connection for commands about the whole installation, with the operator's key if there is one.

    The key is CHORDWISE_ADMIN_KEY, else the one that ``make up`` made, for its own address only, else ``server``'s own
    key, which may have the scope operator.
    """
    key = environment.get(ADMIN_KEY, "").strip()
    if not key:
        local = read_assignments(stack_env if stack_env.is_file() else _checkout(checkout) / LOCAL_STACK_ENV)
        key = local.get(ADMIN_KEY, "") if server.url and server.url == local.get(URL) else ""
    return replace(server, api_key=key or server.api_key)


def _checkout(given: Path | None) -> Path:
    """Return the folder that the virtual environment stands in: the checkout, if `make up` made the environment."""
    return given or Path(sys.prefix).parent


def read_assignments(path: Path) -> dict[str, str]:
    """Parse the ``KEY=value`` lines of a file, ``export`` and quotes allowed; empty if the file cannot be read."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    pairs = (line.strip().removeprefix("export ").partition("=") for line in lines if not line.lstrip().startswith("#"))
    return {name.strip(): value.strip().strip("'\"") for name, equals, value in pairs if equals}
