"""The command line. Every command reads CHORDWISE_URL and CHORDWISE_API_KEY, or what ``make up`` wrote to .local/env.

Exit status: 0 success, 1 the operation failed, 2 the command was called wrongly. Errors are one sentence on stderr.
"""

import functools
import importlib
import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer
from typer import Option
from typer.core import TyperGroup

from chordwise.errors import ChordwiseError, NotConfigured


class CommandGroup(TyperGroup):
    """A group whose help shows the whole first sentence of each command, wrapped."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands below the help."""
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, first_sentence(command.help)) for name, command in commands if command and not command.hidden]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


class LoadedCommands(Mapping[str, Any]):
    """The commands of ``table`` by name, in its order. A value is a module below this package and, after a colon, its
    command: a function or a Typer. It is imported and built when it is first asked for, because building all of them
    takes longer than a query."""

    def __init__(self, table: dict[str, str]) -> None:
        self._table = table

    def __getitem__(self, name: str) -> Any:
        module, _, attribute = self._table[name].partition(":")
        return built(name, getattr(importlib.import_module(f"chordwise.cli.{module}"), attribute))

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


@functools.cache
def built(name: str, target: Any) -> Any:
    """Return the click command of a function or of a Typer, each command with the option --json."""
    from chordwise.cli.screen import with_json

    holder = typer.Typer(add_completion=False, rich_markup_mode=None)
    if isinstance(target, typer.Typer):
        for command in target.registered_commands:
            command.callback = command.callback and with_json(command.callback)
        holder.add_typer(target, name=name, cls=CommandGroup)
    else:
        holder.command(name)(target if name in WITHOUT_JSON else with_json(target))
    return typer.main.get_group(holder).commands[name]


def first_sentence(text: str | None) -> str:
    """Return the first sentence of a help text."""
    paragraph = " ".join((text or "").strip().split("\n\n")[0].split())
    sentence, stop, _ = paragraph.partition(". ")
    return sentence + stop.rstrip() if stop else paragraph


SUCCESS, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130

# In the order of the help: documents, retrieval, quality, upkeep, administration.
COMMANDS = {
    "ingest": "ingest_command:ingest",
    "query": "query_command:query",
    "trace": "query_command:trace",
    "traces": "query_command:traces",
    "why-not": "query_command:why_not",
    "jobs": "jobs_command:jobs",
    "dead-letters": "dead_letters_command:dead_letters",
    "namespaces": "documents_command:namespaces",
    "documents": "documents_command:documents",
    "sources": "sources_command:sources",
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
    "export": "ingest_command:export_namespace",
    "import": "ingest_command:import_archive",
    "verify": "doctor_command:verify",
    "doctor": "doctor_command:doctor",
    "workers": "workers_command:workers",
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


WITHOUT_JSON = frozenset({"mcp"})  # it speaks JSON from beginning to end


class _Chordwise(CommandGroup):
    """The first level: its commands are loaded when they are used."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": {}})
        self.commands = LoadedCommands(COMMANDS)  # type: ignore[assignment]  # none is added later


app = typer.Typer(
    name="chordwise", cls=_Chordwise, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
)


@app.callback(invoke_without_command=True)
def chordwise(
    context: typer.Context, version: Annotated[bool, Option("--version", help="Print the version and exit.")] = False
) -> None:
    """Put documents into Chordwise and find them again.

    The server and the key are taken from CHORDWISE_URL and CHORDWISE_API_KEY; where they are not set, from .local/env,
    which make up writes: below the current directory, else in the checkout whose .venv holds this command. Exit status:
    0 success, 1 failure, 2 wrong usage.
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
