"""``chordwise documents``: list documents, and the generations of one; go back to the one before."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Annotated

import typer
from rich.text import Text

from chordwise.api.documents import DocumentGenerations
from chordwise.api.jobs import failures
from chordwise.cli import screen
from chordwise.errors import ChordwiseError


class DocumentStatus(enum.StrEnum):
    """The states of a document's latest upload."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


app = typer.Typer(
    help="List documents, look at the generations of one, or go back to the one before.", no_args_is_help=True
)

DocumentIdArgument = Annotated[str, typer.Argument(metavar="ID", help="The document's id.")]
NamespaceOption = Annotated[str, typer.Option("--namespace", "-n", help="The namespace it is in.")]


@app.command("list")
def list_documents(
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Only those in this namespace.")] = None,
    status: Annotated[
        DocumentStatus | None, typer.Option("--status", help="Only those whose latest upload is in this state.")
    ] = None,
    source_id: Annotated[str | None, typer.Option("--source-id", help="Only those of this source.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many.")] = 100,
    as_json: screen.Json = False,
) -> None:
    """List documents that are searchable or on their way, or those with a status."""
    with screen.connect() as client:
        found = client.documents(namespace=namespace, status=status and status.value, source_id=source_id, limit=limit)
    if as_json:
        screen.print_json({"data": [dict(each.raw) for each in found]})
    elif not found:
        screen.say("No documents.")
    else:
        table = screen.table(
            "namespace", "document", "status", "generation", "chunks", numbers=("generation", "chunks")
        )
        for each in found:
            generation = "" if each.generation is None else str(each.generation)
            cells = (each.namespace, each.document_id, each.status, generation, str(each.chunks))
            table.add_row(*(Text(screen.clean(cell)) for cell in cells))
        screen.stdout().print(table)


@app.command()
def generations(document_id: DocumentIdArgument, namespace: NamespaceOption, as_json: screen.Json = False) -> None:
    """List what is left of a document's generations, the newest first.

    shown: what searches see. previous: can be gone back to. pending: on its way. retired: about to be dropped.
    """
    with screen.connect() as client:
        found = client.generations(document_id, namespace=namespace)
    if as_json:
        screen.print_json(dict(found.raw))
    else:
        _list(found)


@app.command()
def rollback(
    document_id: DocumentIdArgument,
    namespace: NamespaceOption,
    generation: Annotated[
        int | None, typer.Option("--generation", min=1, help="Which one. Default: the one shown before.")
    ] = None,
    etag: Annotated[
        str | None, typer.Option("--if-match", help="Only if the generations still have this etag.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Until searches see it.")] = False,
    as_json: screen.Json = False,
) -> None:
    """Go back to the generation before. Doing so again undoes it."""
    with screen.connect() as client:
        job = client.rollback(document_id, namespace=namespace, generation=generation, if_match=etag)
        if wait:
            job = client.wait(job)
    if as_json:
        screen.print_json(dict(job.raw))
    elif job.status == "succeeded":
        screen.say("rolled back")
    else:
        screen.say(f"accepted as job {job.job_id}; chordwise jobs {job.job_id} --watch follows it")
    if wait and job.status != "succeeded":
        told = f": {failures(job.errors)}" if job.errors else ""
        raise ChordwiseError(f"job {job.job_id} {job.status.replace('_', ' ')}{told}")


def _list(found: DocumentGenerations) -> None:
    table = screen.table("generation", "state", "chunks", "bytes", "created", "kept until", numbers=("chunks", "bytes"))
    for each in found.data:
        cells = (
            str(each.generation),
            each.state,
            "" if each.chunks is None else str(each.chunks),
            str(each.bytes),
            _time(each.created_at),
            _time(each.kept_until),
        )
        table.add_row(*(Text(screen.clean(cell)) for cell in cells))
    screen.stdout().print(table)
    screen.say(f"etag {found.etag}")


def _time(moment: datetime | None) -> str:
    """Local time, to the second."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}" if moment else ""
