"""``chordwise export`` and ``chordwise import``: whole namespaces as archives."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from chordwise.api.archive_files import Manifest
from chordwise.api.archives import Imported
from chordwise.api.ingestion import ON_CONFLICT
from chordwise.api.jobs import Ingestion, failures
from chordwise.cli import screen
from chordwise.cli.ingest_command import tell_indexed
from chordwise.errors import ChordwiseError


def export_namespace(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A new folder, or a file that ends in .chordwise.")],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="The knowledge base to export.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as one JSON document.")] = False,
) -> None:
    """Export a namespace with its chunks and vectors.

    If it is interrupted, run the same command again: it goes on after the last part that is whole. Documents that are
    replaced meanwhile are exported as they were or as they are.
    """
    began = time.monotonic()
    with screen.connect() as client:
        known = {each.namespace: each.documents for each in client.namespaces()}
        with screen.Ticker(quiet=as_json) as ticker:

            def told(state: Manifest) -> None:
                ticker.tell("documents exported", state.documents, known.get(namespace))

            manifest = client.export(namespace, path, on_progress=told)
    without = sum(part.without_vector for part in manifest.parts)
    if as_json:
        names = ("archive_id", "namespace", "documents", "chunks", "model", "dimension")
        told_json = {name: getattr(manifest, name) for name in names}
        screen.print_json({**told_json, "parts": len(manifest.parts), "without_vector": without})
        return
    counted = f"{screen.plural(manifest.documents, 'document')} with {screen.plural(manifest.chunks, 'chunk')}"
    parts = screen.plural(len(manifest.parts), "part")
    screen.say(f"{counted} in {parts}, begun {manifest.created_at}, in {time.monotonic() - began:.1f} s")
    if without:
        screen.say(f"{screen.plural(without, 'chunk')} without a fitting vector; import will embed them")


def import_archive(
    path: Annotated[Path, typer.Argument(metavar="PATH", exists=True, help="What chordwise export made.")],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="The knowledge base to write to.")],
    wait: Annotated[bool, typer.Option("--wait", help="Return when everything can be found.")] = False,
    on_conflict: Annotated[
        str | None,
        typer.Option(
            "--on-conflict", help="If a document is there already: replace, skip, error, or new to keep both."
        ),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Send what was imported before once more.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the jobs as one JSON document.")] = False,
) -> None:
    """Import an archive into a namespace.

    Every part is compared with its checksum before anything is sent. If it is interrupted, run the same command again:
    parts that have arrived are not sent twice. Vectors are kept if this server has the same embedding model.

    Exits with 1 if a part is damaged or, with --wait, if a document could not be imported.
    """
    if on_conflict not in (None, *ON_CONFLICT):
        raise typer.BadParameter("must be replace, skip, error or new", param_hint="--on-conflict")
    began = time.monotonic()
    with screen.connect() as client, screen.Ticker(quiet=as_json) as ticker:

        def told(state: Ingestion) -> None:
            ticker.tell("documents sent", state.total)

        found = client.import_archive(path, namespace=namespace, on_conflict=on_conflict, again=again, on_progress=told)
        done = found.ingestion
        if wait:
            done = client.wait(done, on_progress=lambda state: tell_indexed(ticker, state))
    if as_json:
        screen.print_json({"jobs": [dict(job.raw) for job in done.jobs], "sent": found.sent})
    else:
        _summarise(found, done, waited=wait, elapsed_s=time.monotonic() - began)
    if wait and done.status != "succeeded":
        said = f": {failures(done.errors)}" if done.errors else ""
        raise ChordwiseError(f"{done.failed + done.cancelled} of {done.total} documents were not imported{said}")


def _summarise(found: Imported, done: Ingestion, *, waited: bool, elapsed_s: float) -> None:
    before = len(done.jobs) - found.sent
    there = f", {screen.plural(before, 'part')} had arrived before" if before else ""
    screen.say(f"{screen.plural(found.sent, 'part')} sent{there}; {screen.plural(done.total, 'document')}")
    if done.jobs:
        screen.say("vectors kept" if found.vectors_kept else "another embedding model: chunks are embedded anew")
    if waited:
        cancelled = f", {done.cancelled} cancelled" if done.cancelled else ""
        counts = f"{done.succeeded} succeeded, {done.failed} failed{cancelled}"
        screen.say(f"{counts}, {screen.plural(done.chunks, 'chunk')}, in {elapsed_s:.1f} s")
    elif done.jobs:
        screen.say(f"follow with: chordwise jobs {done.job_ids[-1]} --watch")
