"""``chordwise export`` and ``chordwise import``: whole namespaces as archives."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from chordwise.api.archive_files import Manifest
from chordwise.api.archives import Imported
from chordwise.api.ingestion import ON_CONFLICT
from chordwise.api.jobs import Ingestion
from chordwise.cli import screen
from chordwise.cli.ingest_command import require_all, show_indexed


def export_namespace(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A new folder, or a file that ends in .chordwise.")],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="The knowledge base to export.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as one JSON document.")] = False,
) -> None:
    """Export a namespace with its chunks and vectors.

    If it is interrupted, run the same command again: it resumes after the last whole part. Documents that are replaced
    meanwhile are exported in their old or in their new version.
    """
    began = time.monotonic()
    with screen.connect() as client:
        total = next((info.documents for info in client.namespaces() if info.namespace == namespace), None)
        with screen.Ticker(quiet=as_json) as ticker:

            def show(state: Manifest) -> None:
                ticker.show("documents exported", state.documents, total)

            manifest = client.export(namespace, path, on_progress=show)
    without = sum(part.without_vector for part in manifest.parts)
    if as_json:
        names = ("archive_id", "namespace", "documents", "chunks", "model", "dimension")
        facts = {name: getattr(manifest, name) for name in names}
        screen.print_json({**facts, "parts": len(manifest.parts), "without_vector": without})
        return
    counted = f"{screen.plural(manifest.documents, 'document')} with {screen.plural(manifest.chunks, 'chunk')}"
    parts = screen.plural(len(manifest.parts), "part")
    screen.say(f"{counted} in {parts}, begun {manifest.created_at}, in {time.monotonic() - began:.1f} s")
    if without:
        screen.say(f"{screen.plural(without, 'chunk')} without a fitting vector; import will embed them")


def import_archive(
    path: Annotated[Path, typer.Argument(metavar="PATH", exists=True, help="An archive of chordwise export.")],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="The knowledge base to write to.")],
    wait: Annotated[bool, typer.Option("--wait", help="Wait until everything is searchable.")] = False,
    on_conflict: Annotated[
        str | None,
        typer.Option("--on-conflict", help="If the document exists: replace, skip, error, or new to keep both."),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Send parts again that were imported before.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the jobs as one JSON document.")] = False,
) -> None:
    """Import an archive into a namespace.

    Every part is compared with its checksum before anything is sent. If it is interrupted, run the same command again:
    parts that have arrived are not sent twice. Vectors are kept if this server has the same embedding model.

    Exits with 1 if a part is damaged or, with --wait, if a document could not be imported.
    """
    screen.require_choice(on_conflict, ON_CONFLICT, "--on-conflict")
    began = time.monotonic()
    with screen.connect() as client, screen.Ticker(quiet=as_json) as ticker:
        imported = client.import_archive(
            path,
            namespace=namespace,
            on_conflict=on_conflict,
            again=again,
            on_progress=lambda state: ticker.show("documents sent", state.total),
        )
        done = imported.ingestion
        if wait:
            done = client.wait(done, on_progress=lambda state: show_indexed(ticker, state))
    if as_json:
        screen.print_json({"jobs": [job.raw for job in done.jobs], "sent": imported.sent})
    else:
        _summarise(imported, done, waited=wait, elapsed_s=time.monotonic() - began)
    if wait:
        require_all(done, "imported")


def _summarise(imported: Imported, done: Ingestion, *, waited: bool, elapsed_s: float) -> None:
    earlier = len(done.jobs) - imported.sent
    arrived = f", {screen.plural(earlier, 'part')} had arrived before" if earlier else ""
    screen.say(f"{screen.plural(imported.sent, 'part')} sent{arrived}; {screen.plural(done.total, 'document')}")
    if done.jobs:
        screen.say("vectors kept" if imported.vectors_kept else "another embedding model: chunks are embedded anew")
    if waited:
        cancelled = f", {done.cancelled} cancelled" if done.cancelled else ""
        counts = f"{done.succeeded} succeeded, {done.failed} failed{cancelled}"
        screen.say(f"{counts}, {screen.plural(done.chunks, 'chunk')}, in {elapsed_s:.1f} s")
    elif done.jobs:
        screen.say(f"follow with: chordwise jobs {done.job_ids[-1]} --watch")
