"""``chordwise sources``: list what documents came from, look at one source, delete one."""

from __future__ import annotations

import enum
from typing import Annotated

import typer
from rich.text import Text

from chordwise.cli import screen


class SourceKind(enum.StrEnum):
    """The ways in which documents arrive."""

    TEXT = "text"
    BYTES = "bytes"
    FILE = "file"
    URL = "url"
    SHEET = "sheet"


app = typer.Typer(
    help="List what documents came from, look at one source, or delete one with its documents.", no_args_is_help=True
)

SourceIdArgument = Annotated[str, typer.Argument(metavar="ID", help="The source's id.")]
NamespaceOption = Annotated[str, typer.Option("--namespace", "-n", help="The namespace it is in.")]


@app.command("list")
def list_sources(
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="The namespace they are in.")],
    kind: Annotated[SourceKind | None, typer.Option("--kind", help="Only those of this kind.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many.")] = 100,
    as_json: screen.Json = False,
) -> None:
    """List sources with a document that is searchable or on its way."""
    with screen.connect() as client:
        found = client.sources(namespace=namespace, kind=kind and kind.value, limit=limit)
    if as_json:
        screen.print_json({"data": [dict(each.raw) for each in found]})
    elif not found:
        screen.say("No sources.")
    else:
        table = screen.table("source", "kind", "uri", "documents", "chunks", numbers=("documents", "chunks"))
        for each in found:
            cells = (each.source_id, each.kind, each.uri or "", str(each.documents), str(each.chunks))
            table.add_row(*(Text(screen.clean(cell)) for cell in cells))
        screen.stdout().print(table)


@app.command()
def show(source_id: SourceIdArgument, namespace: NamespaceOption, as_json: screen.Json = False) -> None:
    """Show a source: its kind and address, and how many documents and chunks came from it."""
    with screen.connect() as client:
        found = client.source(source_id, namespace=namespace)
    if as_json:
        screen.print_json(dict(found.raw))
        return
    facts = screen.table("", "")
    facts.show_header = False
    pages = "" if found.page_start is None else f"{found.page_start} to {found.page_end}"
    counted = ", ".join(f"{count} {name}" for name, count in found.statuses.items() if count)
    for name, value in (
        ("source", found.source_id),
        ("kind", found.kind),
        ("uri", found.uri),
        ("media type", found.media_type),
        ("encoding", found.encoding),
        ("pages", pages),
        ("documents", f"{found.documents}: {counted}"),
        ("chunks", str(found.chunks)),
    ):
        if value:
            facts.add_row(name, Text(screen.clean(value)))
    screen.stdout().print(facts)


@app.command()
def delete(source_id: SourceIdArgument, namespace: NamespaceOption, as_json: screen.Json = False) -> None:
    """Delete a source with all its documents, also those on their way."""
    with screen.connect() as client:
        done = client.delete_source(source_id, namespace=namespace)
    if as_json:
        screen.print_json(dict(done.raw))
    else:
        screen.say(f"deleted with {screen.plural(done.documents, 'document')}")
