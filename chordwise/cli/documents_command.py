"""``chordwise documents`` and ``namespaces``: what is stored."""

import json
import sys
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

from chordwise.api.documents import MOST_CHANGED
from chordwise.api.jobs import Job
from chordwise.cli import screen, short_ids
from chordwise.cli.jobs_command import require_success
from chordwise.contract.document import LENGTHS
from chordwise.errors import InvalidInput, ProblemError

DocumentStatus = Literal["queued", "running", "succeeded", "failed", "cancelled"]


documents = typer.Typer(
    help="Documents: list, show, download, delete, ingest again; their generations, and rollback to an earlier one.",
    no_args_is_help=True,
)

DocumentIdArgument = Annotated[
    str, Argument(metavar="ID", help="The document's id, or the first 8 digits of one that the server made.")
]
NamespaceOption = Annotated[str, Option("--namespace", "-n", help="The namespace it is in.")]


@documents.command("list")
def list_documents(
    namespace: Annotated[str | None, Option("--namespace", "-n", help="Only those in this namespace.")] = None,
    status: Annotated[
        DocumentStatus | None, Option("--status", help="Only those whose latest upload is in this state.")
    ] = None,
    source_id: Annotated[str | None, Option("--source-id", help="Only those of this source.")] = None,
    limit: Annotated[int, Option("--limit", min=1, help="Number to list.")] = 100,
) -> None:
    """List searchable and pending documents, or those with a status."""
    with screen.connect() as client:
        rows = client.documents(namespace=namespace, status=status, source_id=source_id, limit=limit)
    screen.print_list(
        rows,
        ("namespace", "document", "title", "status", "generation", "chunks"),
        attrgetter("namespace", "document_id", "title", "status", "generation", "chunks"),
        empty="No documents.",
        numbers=("generation", "chunks"),
    )


@documents.command()
def show(document_id: DocumentIdArgument, namespace: NamespaceOption) -> None:
    """Show a document: its status, its fields, and where it came from."""
    with screen.connect() as client:
        document = client.document(short_ids.document(client, document_id, namespace), namespace=namespace)
    source = document.source
    facts = {
        "document": document.document_id,
        "namespace": document.namespace,
        **{name: getattr(document, name) for name in LENGTHS},
        "tags": ", ".join(document.tags),
        "readers": ", ".join(document.readers or ()),
        "published": screen.moment(document.published_at),
        "status": document.status,
        "generation": document.generation,
        "chunks": document.chunks,
        "chunking": ", ".join(f"{name} {value}" for name, value in document.chunking.items() if value is not None),
        "metadata": json.dumps(document.metadata, ensure_ascii=False) if document.metadata else None,
        "same bytes as": document.duplicate_of,
        "source": " ".join(filter(None, (source.kind, source.uri, source.source_id))),
        "media type": source.media_type,
        "encoding": source.encoding,
        "warnings": "; ".join(source.warnings),
    }
    screen.print_facts(document, {name: value for name, value in facts.items() if value or value == 0})


@documents.command()
def download(
    document_id: DocumentIdArgument,
    namespace: NamespaceOption,
    output: Annotated[
        str | None, Option("--output", "-o", help="File to write, or - for standard output. Default: its own name.")
    ] = None,
    text: Annotated[bool, Option("--text", help="The text that chunks were cut from, not the upload.")] = False,
    generation: Annotated[
        int | None, Option("--generation", min=1, help="An earlier upload that is still kept.")
    ] = None,
    force: Annotated[bool, Option("--force", help="Replace a file that exists.")] = False,
) -> None:
    """Download a document as it was uploaded, or its text."""
    if text and generation is not None:
        raise typer.BadParameter("--text is that of the current upload; leave --generation out")
    if screen.as_json() and output == "-":
        raise typer.BadParameter("--json and the document cannot share standard output", param_hint="--output")
    with screen.connect() as client:
        document_id = short_ids.document(client, document_id, namespace)
        if text:
            content = client.document_text(document_id, namespace=namespace).text.encode()
        else:
            content = client.original(document_id, namespace=namespace, generation=generation)
    if output == "-":
        sys.stdout.buffer.write(content)
        return
    name = screen.clean(PurePosixPath(document_id.replace("\\", "/")).name).lstrip(".") or "document"
    path = Path(output or (f"{name}.txt" if text else name))
    try:
        with path.open("wb" if force else "xb") as file:
            file.write(content)
    except FileExistsError:
        raise InvalidInput(f"{path} exists; --force replaces it, --output names another file") from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from error
    facts = {"document_id": document_id, "path": str(path), "bytes": len(content)}
    screen.report(facts, f"{screen.plural(len(content), 'byte')} in {path}")


@documents.command()
def delete(
    document_ids: Annotated[list[str], Argument(metavar="ID…", help="The documents.")], namespace: NamespaceOption
) -> int:
    """Delete documents with their chunks, pending uploads too; exits with 1 if one of them is not there."""
    outcomes: list[dict[str, Any]] = []
    with screen.connect() as client:
        for document_id in [short_ids.document(client, given, namespace) for given in document_ids]:
            try:
                client.delete_document(document_id, namespace=namespace)
                outcomes.append({"document_id": document_id, "deleted": True})
            except ProblemError as error:
                if error.status != 404:
                    raise
                outcomes.append({"document_id": document_id, "deleted": False, "detail": error.detail})
    if screen.as_json():
        screen.print_json({"data": outcomes})
    else:
        for outcome in outcomes:
            screen.say(f"{outcome['document_id']} {'deleted' if outcome['deleted'] else 'is not there'}")
    return int(not all(outcome["deleted"] for outcome in outcomes))


@documents.command()
def reingest(
    namespace: NamespaceOption,
    document_ids: Annotated[
        list[str] | None, Argument(metavar="[ID…]", help="The documents; --all instead for every searchable one.")
    ] = None,
    every: Annotated[bool, Option("--all", help="Every searchable document of the namespace.")] = False,
    discard_edits: Annotated[
        bool, Option("--discard-edits", help="Documents with edited chunks too: the edits are lost.")
    ] = False,
    wait: Annotated[bool, Option("--wait", help="Wait until searches see the new text.")] = False,
) -> int:
    """Ingest stored documents again, as the installed version reads them.

    Use it after an upgrade that reads files in another way. Searches see the earlier text until a document is done; equal
    passages keep their vectors, and a document that would not change may stay as it is. Exits with 1 if a document was
    refused or, with --wait, failed.
    """
    if every == bool(document_ids):
        raise typer.BadParameter("name the documents, or give --all")
    jobs: list[Job] = []
    refused = False
    with screen.connect() as client:
        if every:
            stored = client.documents(namespace=namespace, limit=None)
            ids = [document.document_id for document in stored if document.generation is not None]
        else:
            ids = list(dict.fromkeys(short_ids.document(client, given, namespace) for given in document_ids or ()))
        for at in range(0, len(ids), MOST_CHANGED):
            part = ids[at : at + MOST_CHANGED]
            try:
                jobs.append(client.change_documents(part, namespace=namespace, discard_edits=discard_edits))
            except ProblemError as error:
                if error.status not in (404, 409):
                    raise
                screen.warn(f"{screen.plural(len(part), 'document')} from {part[0]} on: {error.detail}")
                refused = True
        if wait:
            jobs = [client.wait(job) for job in jobs]
    if screen.as_json():
        screen.print_json({"data": [job.raw for job in jobs]})
    else:
        for job in jobs:
            done = f"{job.succeeded} of {screen.plural(job.total, 'document')} ingested again"
            screen.say(
                done if wait else f"accepted as job {job.job_id}; chordwise jobs {job.job_id} --watch follows it"
            )
        if not ids:
            screen.say("No searchable documents.")
    for job in jobs:
        screen.warn_of_each(screen.failure_lines(job.errors[: screen.MOST_LINES]))
    return int(refused or any(job.failed for job in jobs))


@documents.command()
def readers(
    names: Annotated[list[str], Argument(metavar="READER…", help="Principals such as group:hr; public for everyone.")],
    namespace: NamespaceOption,
    document: Annotated[list[str] | None, Option("--document", "-d", help="The id of a document; repeatable.")] = None,
    source_id: Annotated[str | None, Option("--source-id", help="All documents of this source.")] = None,
    default: Annotated[
        bool, Option("--default", help="The readers of new documents that name none, instead of those of documents.")
    ] = False,
) -> None:
    """Change the readers of documents at once, or the default of a namespace; nothing is ingested again."""
    if default == bool(document or source_id):
        raise typer.BadParameter("name documents by --document or --source-id, or give --default")
    with screen.connect() as client:
        if default:
            client.set_default_readers(names, namespace=namespace)
            screen.report({"namespace": namespace, "readers": names}, "changed")
            return
        ids = None if document is None else [short_ids.document(client, given, namespace) for given in document]
        changed, more = 0, True
        while more:
            change = client.set_readers(names, namespace=namespace, document_ids=ids, source_id=source_id)
            changed, more = changed + change.documents, change.more
    screen.report({"namespace": namespace, "documents": changed}, f"{screen.plural(changed, 'document')} changed")


@documents.command()
def generations(document_id: DocumentIdArgument, namespace: NamespaceOption) -> None:
    """List the remaining generations of a document, newest first.

    shown: searches see it. previous: rollback is possible. pending: not ingested yet. retired: about to be dropped.
    """
    with screen.connect() as client:
        document_id = short_ids.document(client, document_id, namespace)
        history = client.generations(document_id, namespace=namespace)
    if screen.as_json():
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


@documents.command()
def rollback(
    document_id: DocumentIdArgument,
    namespace: NamespaceOption,
    generation: Annotated[
        int | None, Option("--generation", min=1, help="Its number. Default: the previous one.")
    ] = None,
    etag: Annotated[str | None, Option("--if-match", help="Only if the generations still have this etag.")] = None,
    wait: Annotated[bool, Option("--wait", help="Wait until searches see it.")] = False,
) -> None:
    """Go back to the previous generation. A second rollback undoes the first."""
    with screen.connect() as client:
        document_id = short_ids.document(client, document_id, namespace)
        job = client.rollback(document_id, namespace=namespace, generation=generation, if_match=etag)
        if wait:
            job = client.wait(job)
    if screen.as_json():
        screen.print_json(job.raw)
    elif job.status == "succeeded":
        screen.say("rolled back")
    else:
        screen.say(f"accepted as job {job.job_id}; chordwise jobs {job.job_id} --watch follows it")
    if wait:
        require_success(job)


namespaces = typer.Typer(help="List namespaces with their sizes, show or delete one.", no_args_is_help=True)

Name = Annotated[str, Argument(metavar="NAMESPACE", help="Its name.")]


@namespaces.command("list")
def list_namespaces(
    examples: Annotated[bool, Option("--examples", help="Only those of the example library.")] = False,
) -> None:
    """List namespaces with the number of their searchable documents and chunks."""
    with screen.connect() as client:
        rows = client.namespaces(examples=examples)
    screen.print_list(
        rows,
        ("namespace", "documents", "chunks"),
        attrgetter("namespace", "documents", "chunks"),
        empty="No namespaces: the first document that names one creates it.",
        numbers=("documents", "chunks"),
    )


@namespaces.command("show")
def show_namespace(namespace: Name) -> None:
    """Show a namespace: the number of its documents and chunks, and of uploads that are waiting or have failed."""
    with screen.connect() as client:
        found = next((row for row in client.namespaces() if row.namespace == namespace), None)
        if found is None:
            raise InvalidInput(f"there is no namespace {namespace!r}")
        uploads = {
            status: len(client.documents(namespace=namespace, status=status, limit=None))
            for status in ("queued", "running", "failed")
        }
    if screen.as_json():
        screen.print_json({**found.raw, "uploads": uploads})
        return
    facts = {"namespace": found.namespace, "documents": found.documents, "chunks": found.chunks, **uploads}
    screen.print_facts(found, facts)


@namespaces.command("delete")
def delete_namespace(
    namespace: Name, yes: Annotated[bool, Option("--yes", help="Do not ask for confirmation.")] = False
) -> None:
    """Delete a namespace with all its documents, pending ones too."""
    if not yes:
        typer.confirm(f"Delete namespace {screen.clean(namespace)} with all its documents?", abort=True, err=True)
    with screen.connect() as client:
        deletion = client.delete_namespace(namespace)
    screen.report(deletion.raw, f"deleted with {screen.plural(deletion.documents, 'document')}")
