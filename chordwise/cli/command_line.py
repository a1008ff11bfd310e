"""The command line. Every command reads CHORDWISE_URL and CHORDWISE_API_KEY, or what ``make up`` wrote to .local/env.

Exit status: 0 success, 1 the operation failed, 2 the command was called wrongly. Errors are one sentence on stderr.
"""

from __future__ import annotations

import functools
import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from chordwise.cli.command_group import CommandGroup, LoadedCommands
from chordwise.errors import ChordwiseError, NotConfigured

SUCCESS, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130

# In the order of the help: documents, retrieval, quality, upkeep, administration.
COMMANDS = {
    "ingest": "ingest_command:ingest",
    "query": "query_command:query",
    "trace": "explain_command:trace",
    "traces": "explain_command:traces",
    "why-not": "explain_command:why_not",
    "jobs": "jobs_command:jobs",
    "dead-letters": "dead_letters_command:dead_letters",
    "namespaces": "namespaces_command:namespaces",
    "documents": "documents_command:app",
    "sources": "sources_command:app",
    "chunks": "chunks_command:chunks",
    "import-examples": "examples_command:import_examples",
    "examples": "examples_command:examples",
    "profiles": "profiles_command:profiles",
    "experiments": "profiles_command:experiments",
    "dictionary": "dictionary_command:dictionary",
    "eval": "quality.evaluate_command:evaluate_collection",
    "reliability": "quality.reliability_command:reliability",
    "tune": "quality.tune_command:tune_profile",
    "feedback": "quality.feedback_command:app",
    "export": "archives_command:export_namespace",
    "import": "archives_command:import_archive",
    "verify": "verify_command:verify",
    "doctor": "doctor_command:doctor",
    "models": "models_command:models",
    "webhooks": "webhooks_command:webhooks",
    "tenants": "tenants_command:tenants",
    "keys": "keys_command:keys",
    "quotas": "tenants_command:quotas",
    "usage": "tenants_command:usage",
    "audit": "tenants_command:audit",
    "mcp": "mcp_command:mcp",
    "completion": "completion_command:completion",
}


class _Chordwise(CommandGroup):
    """The first level: its commands are loaded when they are used."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": {}})
        self.commands = LoadedCommands(COMMANDS)


app = typer.Typer(
    name="chordwise", cls=_Chordwise, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
)


@app.callback(invoke_without_command=True)
def chordwise(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Put documents into Chordwise and find them again.

    The server and the key are taken from CHORDWISE_URL and CHORDWISE_API_KEY; where they are not set, from .local/env
    below the current directory, which make up writes. Exit status: 0 success, 1 failure, 2 wrong usage.
    """
    if version:
        from chordwise.transport import CLIENT_VERSION

        sys.stdout.write(f"chordwise {CLIENT_VERSION}\n")
    elif context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")
        raise typer.Exit(USAGE)


@functools.cache
def _command() -> Any:
    """Build the commands once: that takes a tenth of a second, and some programs call `run` often."""
    return typer.main.get_command(app)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status."""
    if "_CHORDWISE_COMPLETE" in os.environ:  # a shell's completion script runs this process
        from chordwise.cli.completion_command import prepare

        prepare()
    try:
        code = _command()(args=list(arguments), prog_name="chordwise", standalone_mode=False)
    except typer.TyperException as error:
        command = getattr(getattr(error, "ctx", None), "command_path", "chordwise")
        _print_error(f"{error.format_message()} (see {command} --help)")
        return USAGE
    except ChordwiseError as error:
        _print_error(str(error))
        return USAGE if isinstance(error, NotConfigured) else FAILED
    except (KeyboardInterrupt, typer.Abort):
        _print_error("interrupted; the server continues with accepted work")
        return INTERRUPTED
    return code if isinstance(code, int) else SUCCESS


def main() -> None:
    """Run the ``chordwise`` command with the arguments of the process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # for terminals that cannot show a character
    sys.exit(run(sys.argv[1:]))


def _print_error(sentence: str) -> None:
    from chordwise.cli.screen import clean

    sys.stderr.write(f"chordwise: {clean(sentence)}\n")
