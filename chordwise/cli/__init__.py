"""The command line client: ``chordwise.cli:main`` is the entry point of the installed command."""

from chordwise.cli.command_line import app, main, run

__all__ = ["app", "main", "run"]
