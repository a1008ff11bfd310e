"""The stack of `make up` on this machine: its settings for commands of an operator, its servers' client programs, and
its sign-in links."""

import os
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

_ENV: Final = Path(".local/stacks/up/env")
_STORES: Final = ("CHORDWISE_MYSQL_URL", "CHORDWISE_POSTGRES_URL", "CHORDWISE_REDIS_URL")


def adopt(environment: MutableMapping[str, str] = os.environ, checkout: Path | None = None) -> str:
    """Set the variables of this checkout's stack where the environment names no server; return a sentence about it, empty
    if nothing was set. ``checkout``: by default the folder that the virtual environment stands in."""
    file = (checkout or Path(sys.prefix).parent) / _ENV
    if any(environment.get(name) for name in _STORES) or not file.is_file():
        return ""
    lines = file.read_text(encoding="utf-8").splitlines()
    for name, equals, value in (line.partition("=") for line in lines):
        if equals:
            environment.setdefault(name, value)
    return f"using the servers of `make up`, because CHORDWISE_MYSQL_URL is not set ({_ENV})"


def sign_in_folder(environment: MutableMapping[str, str] = os.environ) -> Path | None:
    """Return the folder of the codes of sign-in links; None outside the stack."""
    stack = environment.get("CHORDWISE_STACK_DIR", "")
    return Path(stack) / "run" / "sign-in" if stack else None


def client_programs(environment: MutableMapping[str, str] = os.environ) -> str:
    """Return the folders to search for client programs of the servers, as in PATH, those of the stack last."""
    stack = environment.get("CHORDWISE_STACK_DIR", "")
    return os.pathsep.join([environment.get("PATH", os.defpath), *([str(Path(stack) / "clients")] if stack else [])])
