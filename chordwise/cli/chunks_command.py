"""``chordwise chunks``: list, edit, disable, enable and delete chunks."""

import json
import sys
from typing import Annotated, Any

import typer
from typer import Argument, Option

from chordwise.api.chunks import Chunk, ChunkResult
from chordwise.cli import screen

chunks = typer.Typer(add_completion=False, rich_markup_mode=None)

Ids = Annotated[list[str], Argument(metavar="ID…", help="The chunks.")]
_EXCERPT = 60  # characters of a text in a table


@chunks.callback()
def about() -> None:
    """List chunks, change their text, switch them off and on, delete them."""


@chunks.command("list")
def list_chunks(
    namespace: Annotated[str, Option("--namespace", "-n", help="The namespace they are in.")],
    document: Annotated[str | None, Option("--document", "-d", help="Only those of this document.")] = None,
    chunk_type: Annotated[str | None, Option("--type", help="parent, child, sentence, qa or segment.")] = None,
    parent: Annotated[str | None, Option("--parent", help="Only the children of this parent.")] = None,
    disabled: Annotated[bool, Option("--disabled", help="Only disabled ones.")] = False,
    filters: Annotated[
        str | None, Option("--filters", help='Only those of documents that fit, as in {"type": "manual"}: JSON.')
    ] = None,
    order_by: Annotated[
        str, Option("--order-by", help="document_id, updated_at, or -updated_at for the newest first.")
    ] = "document_id",
    offset: Annotated[int, Option("--offset", min=0, max=10_000, help="Number to skip.")] = 0,
    limit: Annotated[int, Option("--limit", min=1, help="Number to list.")] = 50,
) -> None:
    """List published chunks, ordered by document, parent and position."""
    with screen.connect() as client:
        rows = client.chunks(
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
    screen.print_list(
        rows,
        ("id", "document", "type", "index", "tokens", "text"),
        _row,
        empty="No chunks.",
        numbers=("index", "tokens"),
    )


@chunks.command()
def edit(
    chunk_id: Annotated[str, Argument(metavar="ID", help="The chunk.")],
    text: Annotated[str, Option("--text", "-t", help="Its new text; - reads it from standard input.")],
    etag: Annotated[str | None, Option("--etag", help="Only if the chunk still has this etag.")] = None,
) -> int:
    """Give a chunk another text. It is embedded again before this returns."""
    change = {"chunk_id": chunk_id, "text": sys.stdin.read() if text == "-" else text}
    with screen.connect() as client:
        results = client.edit_chunks([change if etag is None else {**change, "etag": etag}])
    return _print_results(results)


@chunks.command()
def delete(chunk_ids: Ids) -> int:
    """Delete chunks; a parent goes with its children, a document with its last chunk."""
    with screen.connect() as client:
        return _print_results(client.delete_chunks(chunk_ids))


@chunks.command()
def enable(chunk_ids: Ids) -> int:
    """Let searches see chunks again."""
    return _switch(chunk_ids, enabled=True)


@chunks.command()
def disable(chunk_ids: Ids) -> int:
    """Hide chunks from every search without deleting them."""
    return _switch(chunk_ids, enabled=False)


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise typer.BadParameter('must be a JSON object, as in {"type": "manual"}', param_hint="--filters")
    return value


def _switch(chunk_ids: list[str], *, enabled: bool) -> int:
    with screen.connect() as client:
        results = client.edit_chunks([{"chunk_id": chunk_id, "enabled": enabled} for chunk_id in chunk_ids])
    return _print_results(results)


def _print_results(results: list[ChunkResult]) -> int:
    """Print the outcome of each chunk. Returns the exit status: 1 if one failed."""
    if screen.as_json():
        screen.print_json({"data": [result.raw for result in results]})
    else:
        for result in results:
            reason = f": {result.detail or result.code}" if result.status == "failed" else ""
            pending = "; a newer upload of its document will replace it" if result.replacement_pending else ""
            repeated = f"; words it had are still in {', '.join(result.repeated_in)}" if result.repeated_in else ""
            screen.say(f"{result.chunk_id} {result.status}{reason}{pending}{repeated}")
    return int(any(result.status == "failed" for result in results))


def _row(chunk: Chunk) -> tuple[object, ...]:
    text = " ".join(chunk.text.split())
    excerpt = text if len(text) <= _EXCERPT else text[: _EXCERPT - 1] + "…"
    kind = chunk.chunk_type + (", edited" if chunk.edited else "") + ("" if chunk.enabled else ", off")
    return chunk.chunk_id, chunk.document_id, kind, chunk.chunk_index, chunk.token_count, excerpt
