"""The supervisor's state file: its process, its progress, and the processes of the stack."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

from . import variables
from .places import StackFolder
from .processes import Identity
from .progress import Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """``processes`` maps the name of a server or service to its process."""

    supervisor: Identity
    ready: bool = False
    processes: Mapping[str, Identity] = field(default_factory=dict)


def write(folder: StackFolder, state: State) -> None:
    """Replace the state file in one step."""
    variables.write_private(folder.state, json.dumps(asdict(state), indent=1) + "\n")


def read(folder: StackFolder) -> State | None:
    """Return the last state; None without one."""
    try:
        raw = json.loads(folder.state.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    processes = {name: Identity(**identity) for name, identity in raw["processes"].items()}
    return State(supervisor=Identity(**raw["supervisor"]), ready=raw["ready"], processes=processes)


@contextmanager
def held(folder: StackFolder, *, patience_s: float = 1.0) -> Iterator[None]:
    """Hold the stack as its only supervisor; the system releases it when the process dies. Raises Failure when another
    one holds it.

    ``patience_s`` allows for commands that hold it for a moment to check it.
    """
    folder.path.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + patience_s
    with folder.lock.open("w") as lock:
        while not variables.try_lock(lock):
            if time.monotonic() >= until:
                raise Failure(f"the stack '{folder.name}' is in use by another command of this checkout")
            time.sleep(0.05)
        yield


def is_held(folder: StackFolder) -> bool:
    """Return whether a supervisor of this stack is alive."""
    if not folder.path.is_dir():
        return False
    try:
        with held(folder, patience_s=0):
            return False
    except Failure:
        return True
