"""``chordwise import-examples`` and ``chordwise examples``: books of examples in, and what became of them."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from chordwise.client import Chordwise
from chordwise.commands import screen
from chordwise.errors import ChordwiseError
from chordwise.examples import (
    BookFlaw,
    ExamplesImport,
    ExampleStatistics,
    ExamplesVerification,
    ImportedRow,
    StoredExamples,
)
from chordwise.prompting import EXAMPLE_CATEGORIES
from chordwise.results import Job

_SAMPLE = 10  # rows that are asked for by their own words
_LOOKED_AT = 20  # hits among which such a row must be
_LONGEST_QUESTION = 500  # characters
_TAGS_SHOWN = 8
_COUNTS = ("read", "accepted", "refused", "duplicates", "blank")

examples = typer.Typer(name="examples", help="The example library: its template, and what is stored.")


def import_examples(
    book: Annotated[
        Path, typer.Argument(metavar="BOOK", exists=True, dir_okay=False, help="An .xlsx or .json file with examples.")
    ],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="The knowledge base to write to.")],
    category: Annotated[
        str | None, typer.Option("--category", help="Only these sheets: qa, record, query or greeting.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Look at the book and store nothing.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Store nothing if one row is wrong.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Return when every row can be found, and check it.")] = False,
    on_conflict: Annotated[
        str | None, typer.Option("--on-conflict", help="If an example is there already: replace, skip or error.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Import a book of examples: a workbook with the sheets qa, record, query and greeting, or the same as JSON.

    Errors and warnings go to standard error, one line each with sheet, row and column. With --wait, each accepted row
    is looked up, and some are asked for by their own words.

    Exits with 1 if a row was refused, or if one that was accepted cannot be found.
    """
    if book.suffix.lower() not in (".xlsx", ".json"):
        raise typer.BadParameter("must be an .xlsx or .json file", param_hint="BOOK")
    if on_conflict not in (None, "replace", "skip", "error"):
        raise typer.BadParameter("must be replace, skip or error", param_hint="--on-conflict")
    if category not in (None, *EXAMPLE_CATEGORIES):
        raise typer.BadParameter("must be qa, record, query or greeting", param_hint="--category")
    began = time.monotonic()
    job: Job | None = None
    verified: ExamplesVerification | None = None
    lost: list[ImportedRow] = []
    with screen.connect() as client, screen.Ticker(quiet=as_json) as ticker:
        ticker.tell("books read", 0, 1)
        done = client.import_examples(
            book, namespace=namespace, strict=strict, dry_run=dry_run, on_conflict=on_conflict, category=category
        )
        if wait and done.job_id:
            job = client.wait(done.job_id, on_progress=lambda state: _tell_job(ticker, state))
            verified = client.verify_examples(done.job_id, sample=_SAMPLE)
            lost = _lost(client, verified, ticker)
    if as_json:
        screen.print_json(_as_json(done, job, verified, lost))
    else:
        _complain(done.errors, done.errors_total)
        _complain(done.warnings, done.warnings_total, before="warning: ")
        _show_book(done)
        _show_outcome(done, verified, lost, elapsed_s=time.monotonic() - began)
    _judge(done, job, verified, lost)


@examples.command("template")
def template(
    file: Annotated[Path, typer.Argument(metavar="FILE", dir_okay=False, help="Where to write the workbook.")],
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Write an empty book: the four sheets with one row each, and a filling guide."""
    if file.suffix.lower() != ".xlsx":
        raise typer.BadParameter("must end in .xlsx", param_hint="FILE")
    if file.exists() and not force:
        raise ChordwiseError(f"{file} is there already; --force writes over it")
    with screen.connect() as client:
        content = client.examples_template()
    try:
        file.write_bytes(content)
    except OSError as error:
        raise ChordwiseError(f"{file} cannot be written: {error.strerror}") from error
    if as_json:
        screen.print_json({"file": str(file), "bytes": len(content)})
    else:
        screen.say(f"wrote {file}")


@examples.command("statistics")
def statistics(
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="The knowledge base.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Count the stored examples by category, grade and tag, with their lengths and exact duplicates."""
    with screen.connect() as client:
        found = client.example_statistics(namespace=namespace)
    if as_json:
        screen.print_json(dict(found.raw))
        return
    _show_stored(found)
    surplus = found.duplicates.get("surplus", 0)
    if surplus:
        first = ", ".join(found.duplicates["groups"][0]) if found.duplicates.get("groups") else ""
        screen.say(f"{screen.plural(surplus, 'exact duplicate')}, such as: {screen.clean(first)}")


def _tell_job(ticker: screen.Ticker, job: Job) -> None:
    ticker.tell("rows indexed", job.succeeded + job.failed + job.cancelled, job.total)


def _lost(client: Chordwise, verified: ExamplesVerification, ticker: screen.Ticker) -> list[ImportedRow]:
    """The rows of the sample that a query with their own words does not find."""
    lost = []
    for place, row in enumerate(verified.sample, start=1):
        answer = client.query(
            row.user_input[:_LONGEST_QUESTION],
            namespace=verified.namespace,
            top_k=_LOOKED_AT,
            filters={"type": row.type} if row.type else None,
        )
        # Of several rows with the same question, any will do: the places of equals are not for us to choose.
        found = any(
            hit.document_id == row.document_id or hit.metadata.get("user_input") == row.user_input
            for hit in answer.chunks
        )
        if not found:
            lost.append(row)
        ticker.tell("rows asked for", place, len(verified.sample))
    return lost


def _complain(flaws: Iterable[BookFlaw], total: int, *, before: str = "") -> None:
    shown = 0
    for flaw in flaws:
        shown += 1
        sys.stderr.write(f"{before}{screen.clean(str(flaw))}\n")
    if total > shown:
        sys.stderr.write(f"{before}and {total - shown} more\n")


def _show_book(done: ExamplesImport) -> None:
    table = screen.table("category", *_COUNTS, "grades", "tags", numbers=_COUNTS)
    for name, found in done.statistics.items():
        if name == "total":
            continue
        counts = [str(getattr(found, count)) for count in _COUNTS]
        table.add_row(Text(screen.clean(name)), *counts, _named(found.grades), _named(found.tags))
    screen.stdout().print(table)


def _show_outcome(
    done: ExamplesImport, verified: ExamplesVerification | None, lost: list[ImportedRow], *, elapsed_s: float
) -> None:
    accepted = screen.plural(done.statistics["total"].accepted, "row") if "total" in done.statistics else "no rows"
    if done.refused_because is not None:
        screen.say("nothing was stored")
    elif done.job_id is None:
        screen.say(f"{accepted} in order; nothing was stored, because this was a dry run")
    elif verified is None:
        screen.say(f"{accepted} accepted as job {done.job_id}")
        screen.say(f"follow with: chordwise jobs {done.job_id} --watch")
    else:
        asked = len(verified.sample)
        screen.say(
            f"{verified.searchable} of {screen.plural(verified.rows, 'row')} searchable, {asked - len(lost)} of {asked}"
            f" found by their own words, in {elapsed_s:.1f} s (job {done.job_id})"
        )


def _show_stored(found: ExampleStatistics) -> None:
    table = screen.table("category", "examples", "characters", "grades", "tags", numbers=("examples",))
    for name, stored in (*found.categories.items(), ("total", found.total)):
        cells = (str(stored.examples), _lengths(stored), _named(stored.grades), _named(stored.tags))
        table.add_row(Text(screen.clean(name)), *cells)
    screen.stdout().print(table)


def _lengths(stored: StoredExamples) -> str:
    lengths = stored.lengths
    return f"{lengths['shortest']} to {lengths['longest']}, mean {lengths['mean']}" if lengths else ""


def _named(counts: Any) -> Text:
    """The most frequent names with their counts."""
    shown = [f"{name or 'none'} {count}" for name, count in list(counts.items())[:_TAGS_SHOWN]]
    return Text(screen.clean(", ".join(shown) + (", …" if len(counts) > _TAGS_SHOWN else "")))


def _as_json(
    done: ExamplesImport, job: Job | None, verified: ExamplesVerification | None, lost: list[ImportedRow]
) -> dict[str, Any]:
    checked = None if verified is None else {**verified.raw, "not_found": [row.document_id for row in lost]}
    return {**done.raw, "job": None if job is None else dict(job.raw), "verification": checked}


def _judge(
    done: ExamplesImport, job: Job | None, verified: ExamplesVerification | None, lost: list[ImportedRow]
) -> None:
    """Raises ChordwiseError for an import with anything wrong."""
    if done.refused_because is not None:
        raise ChordwiseError(done.refused_because.rstrip("."))
    if verified is not None and verified.searchable < verified.rows:
        first = verified.missing[0] if verified.missing else None
        told = f", the first is {first.document_id} ({first.code or first.status})" if first else ""
        raise ChordwiseError(f"{verified.rows - verified.searchable} of {verified.rows} rows cannot be found{told}")
    if lost:
        raise ChordwiseError(f"{screen.plural(len(lost), 'row')} not found by their own words: {lost[0].document_id}")
    total = done.statistics.get("total")
    if done.errors_total and total is not None:
        stored = "would be refused" if done.job_id is None else "were refused; all others went in"
        raise ChordwiseError(f"{total.refused} of {screen.plural(total.read, 'row')} {stored}")
    if job is not None and job.failed:
        raise ChordwiseError(f"{job.failed} of {job.total} rows were not stored: {job.errors[0].detail}")
