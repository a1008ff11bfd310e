"""``chordwise ingest``: files, folders and JSON Lines into a namespace."""

from __future__ import annotations

import codecs
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from chordwise.api.documents import is_url
from chordwise.api.ingestion import ON_CONFLICT, FileKeywords
from chordwise.api.jobs import Ingestion, JobItem, failures, together
from chordwise.cli import screen
from chordwise.client import Chordwise
from chordwise.errors import ChordwiseError
from chordwise.files import Found, find_files, read_documents

_MOST_NAMES = 20  # of skipped files; all of them are in --json


def ingest(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="Files, folders to search, or addresses (https://…).")
    ],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="The knowledge base to write to.")],
    wait: Annotated[bool, typer.Option("--wait", help="Return when everything can be found.")] = False,
    type: Annotated[str | None, typer.Option("--type", help="What kind of document these are, to filter by.")] = None,
    tags: Annotated[list[str] | None, typer.Option("--tag", help="A tag for each of them; repeat for more.")] = None,
    on_conflict: Annotated[
        str | None,
        typer.Option(
            "--on-conflict", help="If a document is there already: replace, skip, error, or new to keep both."
        ),
    ] = None,
    priority: Annotated[
        str | None, typer.Option("--priority", help="Before or after other documents of yours: interactive or bulk.")
    ] = None,
    chunking: Annotated[
        str | None,
        typer.Option(
            "--chunking", help='How to cut them: a strategy, or JSON such as {"strategy": "window", "window": 2}.'
        ),
    ] = None,
    charset: Annotated[
        str | None, typer.Option("--charset", help="The encoding of the files, such as big5; found out without it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the jobs as one JSON document.")] = False,
) -> None:
    """Ingest files, folders, JSON Lines and web pages.

    Each line of a .jsonl or .jsonl.gz file is a document: {"document_id": …, "title": …, "text": …}; doc_id, id and
    _id are taken for document_id, and keys that no document has go into its metadata. Other files are parsed by the
    server: txt, md, html, pdf, docx, xlsx, csv, json. In folders, hidden files and files of other kinds are left out.
    What is at an address is fetched by the server.

    Text is read in the encoding it most likely has. With --wait, a line warns of each file of which that is not sure:
    send it again with --charset. JSON Lines are UTF-8 unless --charset says otherwise.

    Exits with 1 if a line could not be read or, with --wait, if a document could not be ingested.
    """
    if on_conflict not in (None, *ON_CONFLICT):
        raise typer.BadParameter("must be replace, skip, error or new", param_hint="--on-conflict")
    if charset is not None and not _is_known(charset):
        raise typer.BadParameter(f"'{charset}' is not the name of an encoding", param_hint="--charset")
    if priority not in (None, "interactive", "bulk"):
        raise typer.BadParameter("must be interactive or bulk", param_hint="--priority")
    urls = [path for path in paths if is_url(path)]
    for path in paths:
        if not is_url(path) and not Path(path).exists():
            raise typer.BadParameter(f"Path '{path}' does not exist.", param_hint="PATH")
    found = find_files(path for path in paths if not is_url(path))
    if not found.files and not urls:
        raise ChordwiseError(f"there is nothing to ingest: {'; '.join(_skipped(found)) or '0 files found'}")
    options: FileKeywords = {"namespace": namespace, "on_conflict": on_conflict, "type": type, "tags": tags or []}
    options["priority"] = priority
    options["chunking"] = _chunking(chunking)
    options["charset"] = charset
    began = time.monotonic()
    bad_lines: list[str] = []
    with screen.connect() as client:
        with screen.Ticker(quiet=as_json) as ticker:
            sent = done = _send(client, found, urls, options, bad_lines, ticker)
            if wait:
                done = client.wait(done, on_progress=lambda state: tell_indexed(ticker, state))
        copies, unknown = _copies(client, done)
        if as_json:
            screen.print_json(
                {
                    "jobs": [dict(job.raw) for job in done.jobs],
                    "skipped": found.skipped,
                    "skipped_files": found.skipped_files,
                    "duplicates": [
                        {"document_id": item.document_id, "duplicate_of": item.duplicate_of} for item in copies
                    ],
                }
            )
        else:
            _summarise(done, waited=wait, found=found, elapsed_s=time.monotonic() - began)
            for line in (*_others(sent, copies), *unknown):
                screen.say(line)
            if wait:
                _warn(client, done, found)
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
        done = client.ingest(
            _documents(lines, bad_lines, options.get("charset")), url=urls, on_progress=told, **_for_documents(options)
        )
        others = [file for file in found.files if not file.is_json_lines]
        return together(done, client.ingest_files(others, on_progress=told, **options))
    except ChordwiseError as error:
        jobs = (*done.jobs, *error.accepted)
        if not jobs:
            raise
        accepted = ", ".join(job.job_id for job in jobs)
        raise ChordwiseError(f"{error}; accepted before that, and going on: {accepted}") from error


def _documents(paths: Iterable[Path], bad_lines: list[str], charset: str | None) -> Iterator[dict[str, Any]]:
    for path in paths:
        yield from read_documents(path, on_bad_line=bad_lines.append, charset=charset)


def _for_documents(options: FileKeywords) -> Any:
    return {name: value for name, value in options.items() if name not in ("parser_hint", "charset")}


def _is_known(charset: str) -> bool:
    try:
        return codecs.lookup(charset) is not None
    except LookupError:
        return False


def _warn(client: Chordwise, done: Ingestion, found: Found) -> None:
    """Name every document whose encoding is not sure, on standard error."""
    if all(file.is_json_lines for file in found.files):
        return
    items = [item for job in done.jobs for item in client.job_items(job, limit=None) if item.encoding_warning]
    for item in items[:_MOST_NAMES]:
        screen.warn(f"{item.document_id}: {item.encoding_warning}")
    if len(items) > _MOST_NAMES:
        screen.warn(f"{screen.plural(len(items) - _MOST_NAMES, 'more file')} of an encoding that is not sure")


def _chunking(value: str | None) -> dict[str, Any] | None:
    """Return the chunking in an option: a strategy's name, or a JSON object."""
    if value is None or not value.lstrip().startswith("{"):
        return None if value is None else {"strategy": value.strip()}
    try:
        found: dict[str, Any] = json.loads(value)
    except ValueError as error:
        raise typer.BadParameter(f"is not JSON: {error}", param_hint="--chunking") from None
    return found


def _copies(client: Chordwise, done: Ingestion) -> tuple[list[JobItem], list[str]]:
    """Return the documents with the bytes of an older one, or a sentence with the reason why they are not known: the
    documents are stored all the same."""
    try:
        return [item for job in done.jobs for item in client.job_items(job, duplicates=True, limit=None)], []
    except ChordwiseError as error:
        return [], [f"copies are not known: {error}"]


def _others(done: Ingestion, copies: Sequence[JobItem]) -> Iterator[str]:
    """Yield a line for each document that has another id than it was sent with, or the bytes of an older one."""
    renamed = [each for job in done.jobs for each in job.renamed]
    yield from _first(f"{each.requested_id} is taken: stored as {each.document_id}" for each in renamed)
    yield from _first(f"{item.document_id} has the same bytes as {item.duplicate_of}" for item in copies)


def _first(lines: Iterable[str]) -> Iterator[str]:
    every = list(lines)
    yield from every[:_MOST_NAMES]
    if len(every) > _MOST_NAMES:
        yield f"and {len(every) - _MOST_NAMES} more (all of them with --json)"


def _skipped(found: Found) -> list[str]:
    """Return a sentence with the names of the files that were skipped, or none."""
    if not found.skipped:
        return []
    names = ", ".join(found.skipped_files[:_MOST_NAMES])
    more = f" and {found.skipped - _MOST_NAMES} more" if found.skipped > _MOST_NAMES else ""
    return [f"{screen.plural(found.skipped, 'file')} of other kinds skipped: {names}{more}"]


def _counts(done: Ingestion) -> str:
    """Return how many documents ended how. Those that were there already, unchanged or left alone, are no successes."""
    outcomes: Counter[str] = Counter()
    for job in done.jobs:
        outcomes.update(job.outcomes)
    same, left = outcomes["unchanged"], outcomes["skipped"]
    counts = [f"{done.succeeded - same - left} succeeded"]
    counts += [f"{same} unchanged"] if same else []
    counts += [f"{left} skipped (there already)"] if left else []
    counts += [f"{done.failed} failed"]
    counts += [f"{done.cancelled} cancelled"] if done.cancelled else []
    return ", ".join(counts)


def _summarise(done: Ingestion, *, waited: bool, found: Found, elapsed_s: float) -> None:
    jobs = ", ".join(done.job_ids)
    accepted = f"{screen.plural(done.total, 'document')} accepted as {screen.plural(len(done.jobs), 'job')}: {jobs}"
    screen.say(accepted if done.jobs else "no documents")
    if waited:
        screen.say(f"{_counts(done)}, {screen.plural(done.chunks, 'chunk')}, in {elapsed_s:.1f} s")
    elif done.jobs:
        screen.say(f"follow with: chordwise jobs {done.job_ids[-1]} --watch")
    for sentence in _skipped(found):
        screen.say(sentence)
