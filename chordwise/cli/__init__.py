"""The command line client: ``chordwise.cli:main`` is the entry point of the installed command."""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chordwise.cli.command_line import app as app
    from chordwise.cli.command_line import run as run


def main() -> None:
    """Run the ``chordwise`` command with the arguments of the process."""
    # httpx imports its own command line wherever click and pygments are installed, for half of its time.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
    from chordwise.cli.command_line import main as run_command

    run_command()


def __getattr__(name: str) -> Any:
    if name in ("app", "run"):
        from chordwise.cli import command_line

        return getattr(command_line, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
