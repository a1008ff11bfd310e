"""``chordwise chunks``: look at what documents were cut into, and change it piece by piece."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer
from rich.text import Text

from chordwise.api.chunks import Chunk, ChunkResult
from chordwise.cli import screen

chunks = typer.Typer(add_completion=False, rich_markup_mode=None)

Ids = Annotated[list[str], typer.Argument(metavar="ID…", help="The chunks.")]
_SHOWN = 60  # characters of a text in a table


@chunks.callback()
def about() -> None:
    """List chunks, change their text, switch them off and on, delete them."""


@chunks.command("list")
def list_chunks(
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="The namespace they are in.")],
    document: Annotated[str | None, typer.Option("--document", "-d", help="Only those of this document.")] = None,
    chunk_type: Annotated[str | None, typer.Option("--type", help="parent, child, sentence, qa or segment.")] = None,
    parent: Annotated[str | None, typer.Option("--parent", help="Only the children of this parent.")] = None,
    disabled: Annotated[bool, typer.Option("--disabled", help="Only those that are switched off.")] = False,
    filters: Annotated[
        str | None, typer.Option("--filters", help='Only those of documents that fit, as in {"type": "manual"}: JSON.')
    ] = None,
    order_by: Annotated[
        str, typer.Option("--order-by", help="document_id, updated_at, or -updated_at for the newest first.")
    ] = "document_id",
    offset: Annotated[int, typer.Option("--offset", min=0, max=10_000, help="How many to leave out.")] = 0,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many.")] = 50,
    as_json: screen.Json = False,
) -> None:
    """List chunks of what is published, by document, parent and place in it."""
    with screen.connect() as client:
        found = client.chunks(
            namespace=namespace,
            limit=limit,
            document_id=document,
            chunk_type=chunk_type,
            parent_id=parent,
            enabled=False if disabled else None,
            filters=None if filters is None else _object(filters),
            order_by=order_by,
            offset=offset or None,
        )
    if as_json:
        screen.print_json({"data": [dict(chunk.raw) for chunk in found]})
    elif found:
        _list(found)
    else:
        screen.say("No chunks.")


@chunks.command()
def edit(
    chunk_id: Annotated[str, typer.Argument(metavar="ID", help="The chunk.")],
    text: Annotated[str, typer.Option("--text", "-t", help="Its new text; - reads it from standard input.")],
    etag: Annotated[str | None, typer.Option("--etag", help="Only if the chunk is still this one.")] = None,
    as_json: screen.Json = False,
) -> int:
    """Give a chunk another text. It is embedded again before this returns."""
    wanted = {"chunk_id": chunk_id, "text": sys.stdin.read() if text == "-" else text, "etag": etag}
    with screen.connect() as client:
        done = client.edit_chunks([{name: value for name, value in wanted.items() if value is not None}])
    return _told(done, as_json=as_json)


@chunks.command()
def delete(chunk_ids: Ids, as_json: screen.Json = False) -> int:
    """Delete chunks; a parent goes with its children, a document with its last chunk."""
    with screen.connect() as client:
        return _told(client.delete_chunks(chunk_ids), as_json=as_json)


@chunks.command()
def enable(chunk_ids: Ids, as_json: screen.Json = False) -> int:
    """Let searches see chunks again."""
    return _switch(chunk_ids, enabled=True, as_json=as_json)


@chunks.command()
def disable(chunk_ids: Ids, as_json: screen.Json = False) -> int:
    """Hide chunks from every search without deleting them."""
    return _switch(chunk_ids, enabled=False, as_json=as_json)


def _object(text: str) -> dict[str, Any]:
    """Parse a JSON object. Raises a usage error."""
    try:
        read = json.loads(text)
    except ValueError:
        read = None
    if not isinstance(read, dict):
        raise typer.BadParameter('must be a JSON object, as in {"type": "manual"}', param_hint="--filters")
    return read


def _switch(chunk_ids: list[str], *, enabled: bool, as_json: bool) -> int:
    with screen.connect() as client:
        done = client.edit_chunks([{"chunk_id": chunk_id, "enabled": enabled} for chunk_id in chunk_ids])
    return _told(done, as_json=as_json)


def _told(done: list[ChunkResult], *, as_json: bool) -> int:
    """Say what became of each. Gives the exit status: 1 if one failed."""
    if as_json:
        screen.print_json({"data": [dict(each.raw) for each in done]})
    else:
        for each in done:
            reason = f": {each.detail or each.code}" if each.status == "failed" else ""
            pending = "; a newer upload of its document will replace it" if each.replacement_pending else ""
            beside = f"; words it had are still in {', '.join(each.repeated_in)}" if each.repeated_in else ""
            screen.say(f"{each.chunk_id} {each.status}{reason}{pending}{beside}")
    return int(any(each.status == "failed" for each in done))


def _list(found: list[Chunk]) -> None:
    table = screen.table("id", "document", "type", "index", "tokens", "text", numbers=("index", "tokens"))
    for chunk in found:
        text = " ".join(chunk.text.split())
        shown = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
        marks = [*(["edited"] if chunk.edited else []), *([] if chunk.enabled else ["off"])]
        kind = ", ".join([chunk.chunk_type, *marks])
        cells = (chunk.chunk_id, chunk.document_id, kind, str(chunk.chunk_index), str(chunk.token_count), shown)
        table.add_row(*(Text(screen.clean(cell)) for cell in cells))
    screen.stdout().print(table)
