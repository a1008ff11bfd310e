"""The command line. Every command reads CHORDWISE_URL and CHORDWISE_API_KEY, or what ``make up`` wrote to .local/env.

Exit status: 0 success, 1 the operation failed, 2 the command was called wrongly. Errors are one sentence on stderr.
"""

from __future__ import annotations

import functools
import io
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from chordwise.cli import completion_command, screen
from chordwise.cli.archives_command import export_namespace, import_archive
from chordwise.cli.chunks_command import chunks
from chordwise.cli.dead_letters_command import dead_letters
from chordwise.cli.doctor_command import doctor
from chordwise.cli.documents_command import app as documents
from chordwise.cli.evaluate_command import evaluate_collection
from chordwise.cli.examples_command import examples, import_examples
from chordwise.cli.explain_command import trace, traces, why_not
from chordwise.cli.feedback_command import app as feedback
from chordwise.cli.ingest_command import ingest
from chordwise.cli.jobs_command import jobs
from chordwise.cli.keys_command import keys
from chordwise.cli.mcp_command import mcp
from chordwise.cli.models_command import models
from chordwise.cli.query_command import query
from chordwise.cli.reliability_command import reliability
from chordwise.cli.sources_command import app as sources
from chordwise.cli.tenants_command import audit, tenants, usage
from chordwise.cli.tune_command import tune_profile
from chordwise.cli.verify_command import verify
from chordwise.cli.webhooks_command import webhooks
from chordwise.errors import ChordwiseError, NotConfigured
from chordwise.transport import CLIENT_VERSION

SUCCESS, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130

app = typer.Typer(name="chordwise", add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
app.command()(ingest)
app.command()(query)
app.command()(trace)
app.command()(traces)
app.command("why-not")(why_not)
app.command()(jobs)
app.command("dead-letters")(dead_letters)
app.add_typer(documents, name="documents")
app.add_typer(sources, name="sources")
app.command("import-examples")(import_examples)
app.add_typer(examples)
app.add_typer(webhooks, name="webhooks")
app.add_typer(chunks, name="chunks")
app.command()(verify)
app.command("export")(export_namespace)
app.command("import")(import_archive)
app.command("eval")(evaluate_collection)
app.command()(reliability)
app.command("tune")(tune_profile)
app.add_typer(feedback, name="feedback")
app.add_typer(tenants, name="tenants")
app.add_typer(keys, name="keys")
app.command()(audit)
app.command()(usage)
app.command()(doctor)
app.command()(completion_command.completion)
app.add_typer(models, name="models")
app.command()(mcp)


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
        screen.say(f"chordwise {CLIENT_VERSION}")
    elif context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")
        raise typer.Exit(USAGE)


@functools.cache
def _command() -> Any:
    """Build the commands once: that takes a tenth of a second, and some programs call `run` often."""
    return typer.main.get_command(app)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status."""
    completion_command.prepare()
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
    sys.stderr.write(f"chordwise: {screen.clean(sentence)}\n")
