"""``chordwise ingest``: files, folders and JSON Lines into a namespace."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from chordwise.client import Chordwise
from chordwise.commands import screen
from chordwise.documents import is_url
from chordwise.errors import ChordwiseError
from chordwise.files import Found, find_files, read_documents
from chordwise.options import FileKeywords
from chordwise.results import Ingestion, failures, together


def ingest(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="Files, folders to search, or addresses (https://…).")
    ],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="The knowledge base to write to.")],
    wait: Annotated[bool, typer.Option("--wait", help="Return when everything can be found.")] = False,
    type: Annotated[str | None, typer.Option("--type", help="What kind of document these are, to filter by.")] = None,
    tags: Annotated[list[str] | None, typer.Option("--tag", help="A tag for each of them; repeat for more.")] = None,
    on_conflict: Annotated[
        str | None, typer.Option("--on-conflict", help="If a document is there already: replace, skip or error.")
    ] = None,
    priority: Annotated[
        str | None, typer.Option("--priority", help="Before or after other documents of yours: interactive or bulk.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the jobs as one JSON document.")] = False,
) -> None:
    """Ingest files, folders, JSON Lines and web pages.

    Each line of a .jsonl or .jsonl.gz file is a document: {"document_id": …, "title": …, "text": …}; doc_id, id and
    _id are taken for document_id, and keys that no document has go into its metadata. Other files are parsed by the
    server: txt, md, html, pdf, docx, xlsx, csv, json. In folders, hidden files and files of other kinds are left out.
    What is at an address is fetched by the server.

    Exits with 1 if a line could not be read or, with --wait, if a document could not be ingested.
    """
    if on_conflict not in (None, "replace", "skip", "error"):
        raise typer.BadParameter("must be replace, skip or error", param_hint="--on-conflict")
    if priority not in (None, "interactive", "bulk"):
        raise typer.BadParameter("must be interactive or bulk", param_hint="--priority")
    urls = [path for path in paths if is_url(path)]
    for path in paths:
        if not is_url(path) and not Path(path).exists():
            raise typer.BadParameter(f"Path '{path}' does not exist.", param_hint="PATH")
    found = find_files(path for path in paths if not is_url(path))
    if not found.files and not urls:
        raise ChordwiseError(
            f"there is nothing to ingest: {screen.plural(found.skipped, 'file')} of other kinds skipped"
        )
    options: FileKeywords = {"namespace": namespace, "on_conflict": on_conflict, "type": type, "tags": tags or []}
    options["priority"] = priority
    began = time.monotonic()
    bad_lines: list[str] = []
    with screen.connect() as client:
        with screen.Ticker(quiet=as_json) as ticker:
            done = _send(client, found, urls, options, bad_lines, ticker)
            if wait:
                done = client.wait(done, on_progress=lambda state: tell_indexed(ticker, state))
        if as_json:
            screen.print_json({"jobs": [dict(job.raw) for job in done.jobs], "skipped": found.skipped})
        else:
            _summarise(done, waited=wait, skipped=found.skipped, elapsed_s=time.monotonic() - began)
    if bad_lines:
        more = f" (and {len(bad_lines) - 1} more like it)" if len(bad_lines) > 1 else ""
        raise ChordwiseError(f"{bad_lines[0]}{more}; everything else was sent")
    if wait and done.status != "succeeded":
        told = f": {failures(done.errors)}" if done.errors else ""
        raise ChordwiseError(f"{done.failed + done.cancelled} of {done.total} documents were not ingested{told}")


def tell_indexed(ticker: screen.Ticker, state: Ingestion) -> None:
    """Show how many documents are through, one way or the other."""
    ticker.tell("documents indexed", state.succeeded + state.failed + state.cancelled, state.total)


def _send(
    client: Chordwise,
    found: Found,
    urls: Sequence[str],
    options: FileKeywords,
    bad_lines: list[str],
    ticker: screen.Ticker,
) -> Ingestion:
    done = Ingestion()

    def told(state: Ingestion) -> None:
        ticker.tell("documents sent", together(done, state).total)

    try:
        lines = [file.path for file in found.files if file.is_json_lines]
        done = client.ingest(_documents(lines, bad_lines), url=urls, on_progress=told, **_for_documents(options))
        others = [file for file in found.files if not file.is_json_lines]
        return together(done, client.ingest_files(others, on_progress=told, **options))
    except ChordwiseError as error:
        jobs = (*done.jobs, *error.accepted)
        if not jobs:
            raise
        accepted = ", ".join(job.job_id for job in jobs)
        raise ChordwiseError(f"{error}; accepted before that, and going on: {accepted}") from error


def _documents(paths: Iterable[Path], bad_lines: list[str]) -> Iterator[dict[str, Any]]:
    for path in paths:
        yield from read_documents(path, on_bad_line=bad_lines.append)


def _for_documents(options: FileKeywords) -> Any:
    return {name: value for name, value in options.items() if name != "parser_hint"}


def _summarise(done: Ingestion, *, waited: bool, skipped: int, elapsed_s: float) -> None:
    jobs = ", ".join(done.job_ids)
    accepted = f"{screen.plural(done.total, 'document')} accepted as {screen.plural(len(done.jobs), 'job')}: {jobs}"
    screen.say(accepted if done.jobs else "no documents")
    if waited:
        counts = f"{done.succeeded} succeeded, {done.failed} failed"
        cancelled = f", {done.cancelled} cancelled" if done.cancelled else ""
        screen.say(f"{counts}{cancelled}, {screen.plural(done.chunks, 'chunk')}, in {elapsed_s:.1f} s")
    elif done.jobs:
        screen.say(f"follow with: chordwise jobs {done.job_ids[-1]} --watch")
    if skipped:
        screen.say(f"{screen.plural(skipped, 'file')} of other kinds skipped")
