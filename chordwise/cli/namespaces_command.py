"""``chordwise namespaces``: list, show and delete namespaces."""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated

import typer

from chordwise.cli import screen
from chordwise.errors import InvalidInput

namespaces = typer.Typer(help="List namespaces with their sizes, show or delete one.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAMESPACE", help="Its name.")]


@namespaces.command("list")
def list_namespaces(
    examples: Annotated[bool, typer.Option("--examples", help="Only those of the example library.")] = False,
    as_json: screen.Json = False,
) -> None:
    """List namespaces with the number of their searchable documents and chunks."""
    with screen.connect() as client:
        rows = client.namespaces(examples=examples)
    screen.print_list(
        rows,
        ("namespace", "documents", "chunks"),
        attrgetter("namespace", "documents", "chunks"),
        as_json=as_json,
        empty="No namespaces: the first document that names one creates it.",
        numbers=("documents", "chunks"),
    )


@namespaces.command()
def show(namespace: Name, as_json: screen.Json = False) -> None:
    """Show a namespace: the number of its documents and chunks, and of uploads that are waiting or have failed."""
    with screen.connect() as client:
        found = next((row for row in client.namespaces() if row.namespace == namespace), None)
        if found is None:
            raise InvalidInput(f"there is no namespace {namespace!r}")
        uploads = {
            status: len(client.documents(namespace=namespace, status=status, limit=None))
            for status in ("queued", "running", "failed")
        }
    if as_json:
        screen.print_json({**found.raw, "uploads": uploads})
        return
    facts = {"namespace": found.namespace, "documents": found.documents, "chunks": found.chunks, **uploads}
    screen.print_facts(found, facts, as_json=False)


@namespaces.command()
def delete(
    namespace: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    as_json: screen.Json = False,
) -> None:
    """Delete a namespace with all its documents, pending ones too."""
    if not yes:
        typer.confirm(f"Delete namespace {screen.clean(namespace)} with all its documents?", abort=True, err=True)
    with screen.connect() as client:
        deletion = client.delete_namespace(namespace)
    screen.report(deletion.raw, f"deleted with {screen.plural(deletion.documents, 'document')}", as_json=as_json)
