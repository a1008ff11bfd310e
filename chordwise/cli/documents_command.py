"""``chordwise documents``: list documents and their generations, and roll back."""

from __future__ import annotations

import enum
from operator import attrgetter
from typing import Annotated

import typer

from chordwise.cli import screen
from chordwise.cli.jobs_command import require_success


class DocumentStatus(enum.StrEnum):
    """The states of a document's latest upload."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


app = typer.Typer(help="List documents and their generations, and roll back.", no_args_is_help=True)

DocumentIdArgument = Annotated[str, typer.Argument(metavar="ID", help="The document's id.")]
NamespaceOption = Annotated[str, typer.Option("--namespace", "-n", help="The namespace it is in.")]


@app.command("list")
def list_documents(
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Only those in this namespace.")] = None,
    status: Annotated[
        DocumentStatus | None, typer.Option("--status", help="Only those whose latest upload is in this state.")
    ] = None,
    source_id: Annotated[str | None, typer.Option("--source-id", help="Only those of this source.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Number to list.")] = 100,
    as_json: screen.Json = False,
) -> None:
    """List searchable and pending documents, or those with a status."""
    with screen.connect() as client:
        rows = client.documents(namespace=namespace, status=status and status.value, source_id=source_id, limit=limit)
    screen.print_list(
        rows,
        ("namespace", "document", "status", "generation", "chunks"),
        attrgetter("namespace", "document_id", "status", "generation", "chunks"),
        as_json=as_json,
        empty="No documents.",
        numbers=("generation", "chunks"),
    )


@app.command()
def generations(document_id: DocumentIdArgument, namespace: NamespaceOption, as_json: screen.Json = False) -> None:
    """List the remaining generations of a document, newest first.

    shown: searches see it. previous: rollback is possible. pending: not ingested yet. retired: about to be dropped.
    """
    with screen.connect() as client:
        history = client.generations(document_id, namespace=namespace)
    if as_json:
        screen.print_json(history.raw)
        return
    screen.print_table(
        ("generation", "state", "chunks", "bytes", "created", "kept until"),
        (
            (
                *(row.generation, row.state, row.chunks, row.bytes),
                *(screen.moment(at, seconds=True) for at in (row.created_at, row.kept_until)),
            )
            for row in history.data
        ),
        numbers=("chunks", "bytes"),
    )
    screen.say(f"etag {history.etag}")


@app.command()
def rollback(
    document_id: DocumentIdArgument,
    namespace: NamespaceOption,
    generation: Annotated[
        int | None, typer.Option("--generation", min=1, help="Its number. Default: the previous one.")
    ] = None,
    etag: Annotated[
        str | None, typer.Option("--if-match", help="Only if the generations still have this etag.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until searches see it.")] = False,
    as_json: screen.Json = False,
) -> None:
    """Go back to the previous generation. A second rollback undoes the first."""
    with screen.connect() as client:
        job = client.rollback(document_id, namespace=namespace, generation=generation, if_match=etag)
        if wait:
            job = client.wait(job)
    if as_json:
        screen.print_json(job.raw)
    elif job.status == "succeeded":
        screen.say("rolled back")
    else:
        screen.say(f"accepted as job {job.job_id}; chordwise jobs {job.job_id} --watch follows it")
    if wait:
        require_success(job)
