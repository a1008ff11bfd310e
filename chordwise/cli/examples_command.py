"""``chordwise import-examples`` and ``chordwise examples``: books of examples in, and what became of them."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from chordwise.agents.example_prompts import EXAMPLE_NAMESPACES
from chordwise.agents.prompts import EXAMPLE_CATEGORIES
from chordwise.api.examples import (
    BookFlaw,
    ExamplesImport,
    ExampleStatistics,
    ExamplesVerification,
    ImportedRow,
    StoredExamples,
)
from chordwise.api.ingestion import ON_CONFLICT
from chordwise.api.jobs import Job
from chordwise.cli import screen
from chordwise.client import Chordwise
from chordwise.errors import ChordwiseError

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
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="The one knowledge base to write all sheets to.")
    ] = None,
    tables: Annotated[
        bool, typer.Option("--tables", help="Write each sheet to a knowledge base of its own: qa_examples, …")
    ] = False,
    category: Annotated[
        str | None, typer.Option("--category", help="Only these sheets: qa, record, query or greeting.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Look at the book and store nothing.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Store nothing if one row is wrong.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Return when every row can be found, and check it.")] = False,
    on_conflict: Annotated[
        str | None, typer.Option("--on-conflict", help="If an example is there already: replace, skip, error or new.")
    ] = None,
    as_json: screen.Json = False,
) -> None:
    """Import a book of examples: a workbook with the sheets qa, record, query and greeting, or the same as JSON.

    Give either --namespace or --tables; the retrieval node of LangGraph finds the examples in both cases. Errors and
    warnings go to standard error, one line each with sheet, row and column. With --wait, each accepted row is looked up,
    and some are asked for by their own words.

    Exits with 1 if a row was refused, or if one that was accepted cannot be found.
    """
    if book.suffix.lower() not in (".xlsx", ".json"):
        raise typer.BadParameter("must be an .xlsx or .json file", param_hint="BOOK")
    if on_conflict not in (None, *ON_CONFLICT):
        raise typer.BadParameter("must be replace, skip, error or new", param_hint="--on-conflict")
    if category not in (None, *EXAMPLE_CATEGORIES):
        raise typer.BadParameter("must be qa, record, query or greeting", param_hint="--category")
    if (namespace is None) is not tables:
        raise typer.BadParameter("give either --namespace or --tables", param_hint="--namespace")
    began = time.monotonic()
    parts: dict[str, _Outcome] = {}
    with screen.connect() as client, screen.Ticker(quiet=as_json) as ticker:
        ticker.tell("books read", 0, 1)
        one = _Import(client, ticker, book, wait=wait, on_conflict=on_conflict)
        if namespace is not None:
            whole = one.run(namespace, category, strict=strict, dry_run=dry_run)
        else:
            whole, parts = _into_tables(one, category, strict=strict, dry_run=dry_run)
    if as_json:
        shown = {name: _as_json(part) for name, part in parts.items()}
        screen.print_json(_as_json(whole) | ({"tables": shown} if tables else {}))
    else:
        _complain(whole.done.errors, whole.done.errors_total)
        _complain(whole.done.warnings, whole.done.warnings_total, before="warning: ")
        _show_book(whole.done)
        elapsed_s = time.monotonic() - began
        for name, part in parts.items():
            _show_outcome(part, elapsed_s=elapsed_s, before=f"{name}: ")
        if not parts:
            _show_outcome(whole, elapsed_s=elapsed_s)
    for part in parts.values() or (whole,):
        _judge_rows(part)
    _judge_book(whole.done, stored=bool(parts) or whole.done.job_id is not None)
    for part in parts.values() or (whole,):
        _judge_job(part)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """One import and, where it was waited for, what became of its rows. ``lost``: rows of the sample that are not found."""

    done: ExamplesImport
    job: Job | None = None
    verified: ExamplesVerification | None = None
    lost: Sequence[ImportedRow] = ()


class _Import:
    """Imports of one book."""

    def __init__(
        self, client: Chordwise, ticker: screen.Ticker, book: Path, *, wait: bool, on_conflict: str | None
    ) -> None:
        self._client, self._ticker, self._book = client, ticker, book
        self._wait, self._on_conflict = wait, on_conflict

    def run(self, namespace: str, category: str | None, *, strict: bool, dry_run: bool) -> _Outcome:
        """Import the sheets of one category, or all, into a namespace."""
        done = self._client.import_examples(
            self._book,
            namespace=namespace,
            strict=strict,
            dry_run=dry_run,
            on_conflict=self._on_conflict,
            category=category,
        )
        if not (self._wait and done.job_id):
            return _Outcome(done=done)
        job = self._client.wait(done.job_id, on_progress=lambda state: _tell_job(self._ticker, state))
        verified = self._client.verify_examples(done.job_id, sample=_SAMPLE)
        return _Outcome(done=done, job=job, verified=verified, lost=_lost(self._client, verified, self._ticker))


def _into_tables(
    one: _Import, category: str | None, *, strict: bool, dry_run: bool
) -> tuple[_Outcome, dict[str, _Outcome]]:
    """Check the whole book, then import each of its categories that has a good row into its own namespace.

    Return the outcome of the check, and that of each import by namespace; no imports after a dry run or a refusal.
    """
    whole = one.run(EXAMPLE_NAMESPACES[0], category, strict=False, dry_run=True)
    total = whole.done.statistics["total"]
    if dry_run:
        return whole, {}
    if strict and total.refused:
        reason = f"not all of {total.read} rows can be taken, and nothing was stored"
        return replace(whole, done=replace(whole.done, refused_because=reason)), {}
    if not total.accepted:
        reason = "there is no good row in the book, and nothing was stored"
        return replace(whole, done=replace(whole.done, refused_because=reason)), {}
    chosen = [name for name in EXAMPLE_CATEGORIES if whole.done.statistics[name].accepted]
    return whole, {
        f"{name}_examples": one.run(f"{name}_examples", name, strict=False, dry_run=False) for name in chosen
    }


@examples.command("template")
def template(
    file: Annotated[Path, typer.Argument(metavar="FILE", dir_okay=False, help="Where to write the workbook.")],
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    as_json: screen.Json = False,
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
    as_json: screen.Json = False,
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


def _show_outcome(outcome: _Outcome, *, elapsed_s: float, before: str = "") -> None:
    done, verified, lost = outcome.done, outcome.verified, outcome.lost
    accepted = screen.plural(done.statistics["total"].accepted, "row") if "total" in done.statistics else "no rows"
    if done.refused_because is not None:
        screen.say(f"{before}nothing was stored")
    elif done.job_id is None:
        screen.say(f"{before}{accepted} in order; nothing was stored, because this was a dry run")
    elif verified is None:
        screen.say(f"{before}{accepted} accepted as job {done.job_id}")
        screen.say(f"follow with: chordwise jobs {done.job_id} --watch")
    else:
        asked = len(verified.sample)
        screen.say(
            f"{before}{verified.searchable} of {screen.plural(verified.rows, 'row')} searchable, {asked - len(lost)} of {asked}"
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


def _as_json(outcome: _Outcome) -> dict[str, Any]:
    job, verified = outcome.job, outcome.verified
    checked = None if verified is None else {**verified.raw, "not_found": [row.document_id for row in outcome.lost]}
    return {**outcome.done.raw, "job": None if job is None else dict(job.raw), "verification": checked}


def _judge_rows(outcome: _Outcome) -> None:
    """Raise ChordwiseError for a refused import, and for accepted rows that cannot be found."""
    verified, lost = outcome.verified, outcome.lost
    if outcome.done.refused_because is not None:
        raise ChordwiseError(outcome.done.refused_because.rstrip("."))
    if verified is not None and verified.searchable < verified.rows:
        first = verified.missing[0] if verified.missing else None
        told = f", the first is {first.document_id} ({first.code or first.status})" if first else ""
        raise ChordwiseError(f"{verified.rows - verified.searchable} of {verified.rows} rows cannot be found{told}")
    if lost:
        raise ChordwiseError(f"{screen.plural(len(lost), 'row')} not found by their own words: {lost[0].document_id}")


def _judge_book(done: ExamplesImport, *, stored: bool) -> None:
    """Raise ChordwiseError if a row of the book was refused."""
    total = done.statistics.get("total")
    if done.errors_total and total is not None:
        result = "were refused; all others went in" if stored else "would be refused"
        raise ChordwiseError(f"{total.refused} of {screen.plural(total.read, 'row')} {result}")


def _judge_job(outcome: _Outcome) -> None:
    """Raise ChordwiseError if a row could not be stored."""
    job = outcome.job
    if job is not None and job.failed:
        raise ChordwiseError(f"{job.failed} of {job.total} rows were not stored: {job.errors[0].detail}")
