"""``chordwise sources``: list, show and delete the sources of documents."""

from __future__ import annotations

import enum
from operator import attrgetter
from typing import Annotated

import typer

from chordwise.cli import screen, short_ids


class SourceKind(enum.StrEnum):
    """The ways in which documents arrive."""

    TEXT = "text"
    BYTES = "bytes"
    FILE = "file"
    URL = "url"
    SHEET = "sheet"


app = typer.Typer(
    help="List and show the sources of documents, or delete one with its documents.", no_args_is_help=True
)

SourceIdArgument = Annotated[str, typer.Argument(metavar="ID", help="The source's id; 8 digits suffice.")]
NamespaceOption = Annotated[str, typer.Option("--namespace", "-n", help="The namespace it is in.")]


@app.command("list")
def list_sources(
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="The namespace they are in.")],
    kind: Annotated[SourceKind | None, typer.Option("--kind", help="Only those of this kind.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Number to list.")] = 100,
    as_json: screen.Json = False,
) -> None:
    """List sources with a searchable or pending document."""
    with screen.connect() as client:
        rows = client.sources(namespace=namespace, kind=kind and kind.value, limit=limit)
    screen.print_list(
        rows,
        ("source", "kind", "uri", "documents", "chunks"),
        attrgetter("source_id", "kind", "uri", "documents", "chunks"),
        as_json=as_json,
        empty="No sources.",
        numbers=("documents", "chunks"),
    )


@app.command()
def show(source_id: SourceIdArgument, namespace: NamespaceOption, as_json: screen.Json = False) -> None:
    """Show a source: its kind, its address, and the number of its documents and chunks."""
    with screen.connect() as client:
        source = client.source(short_ids.source(client, source_id, namespace), namespace=namespace)
    statuses = ", ".join(f"{count} {name}" for name, count in source.statuses.items() if count)
    facts = {
        "source": source.source_id,
        "kind": source.kind,
        "uri": source.uri,
        "media type": source.media_type,
        "encoding": source.encoding,
        "pages": None if source.page_start is None else f"{source.page_start} to {source.page_end}",
        "documents": f"{source.documents}: {statuses}",
        "chunks": str(source.chunks),
    }
    screen.print_facts(source, {name: value for name, value in facts.items() if value}, as_json=as_json)


@app.command()
def delete(source_id: SourceIdArgument, namespace: NamespaceOption, as_json: screen.Json = False) -> None:
    """Delete a source with all its documents, pending ones too."""
    with screen.connect() as client:
        deletion = client.delete_source(short_ids.source(client, source_id, namespace), namespace=namespace)
    sentence = f"deleted with {screen.plural(deletion.documents, 'document')}"
    screen.report(deletion.raw, sentence, as_json=as_json)
