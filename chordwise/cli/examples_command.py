"""``chordwise import-examples`` and ``chordwise examples``: import books of examples, and verify the imports."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from chordwise.api.examples import BookFlaw, ExamplesImport, ExamplesVerification
from chordwise.api.ingestion import ON_CONFLICT
from chordwise.api.jobs import Job
from chordwise.api.queries import BatchedAnswer, QueryResult
from chordwise.cli import screen
from chordwise.client import Chordwise
from chordwise.contract.example import SampledExample, StoredCategory
from chordwise.errors import ChordwiseError, file_errors
from chordwise.example_step import EXAMPLE_NAMESPACES
from chordwise.prompting import EXAMPLE_CATEGORIES

_SAMPLE = 10  # rows that are searched for by their own words
_LOOKED_AT = 20  # such a row must be among so many hits
_LONGEST_QUESTION = 500  # characters
_TAGS_SHOWN = 8
_COUNTS = ("read", "accepted", "refused", "duplicates", "blank")

examples = typer.Typer(name="examples", help="The example library: its template and its statistics.")


def import_examples(
    book: Annotated[
        Path | None, Argument(metavar="BOOK", exists=True, dir_okay=False, help="An .xlsx or .json file with examples.")
    ] = None,
    excel_path: Annotated[
        Path | None,
        Option("--excel_path", "--excel-path", exists=True, dir_okay=False, help="The same as BOOK."),
    ] = None,
    namespace: Annotated[
        str | None, Option("--namespace", "-n", help="The one knowledge base to write all sheets to.")
    ] = None,
    tables: Annotated[
        bool, Option("--tables", help="Write each sheet to a knowledge base of its own: qa_examples, …")
    ] = False,
    category: Annotated[
        str | None, Option("--category", help="Only these sheets: qa, record, query or greeting.")
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Check the book and store nothing.")] = False,
    strict: Annotated[bool, Option("--strict", help="Store nothing if a row is invalid.")] = False,
    wait: Annotated[bool, Option("--wait", help="Wait until every row is searchable, and check that.")] = False,
    on_conflict: Annotated[
        str | None, Option("--on-conflict", help="If the example exists: replace, skip, error or new.")
    ] = None,
) -> None:
    """Import a book of examples: a workbook with the sheets qa, record, query and greeting, or the same as JSON.

    Give either --namespace or --tables; the retrieval node of LangGraph finds the examples in both cases. Errors and
    warnings go to standard error, one line each with sheet, row and column. With --wait, each accepted row is looked up,
    and a sample is searched for by its own words.

    Exits with 1 if a row was refused, or if one that was accepted cannot be found.
    """
    if (book is None) is (excel_path is None):
        raise typer.BadParameter("give the file once, as BOOK or with --excel_path", param_hint="BOOK")
    book = book or excel_path
    assert book is not None
    if book.suffix.lower() not in (".xlsx", ".json"):
        raise typer.BadParameter("must be an .xlsx or .json file", param_hint="BOOK")
    screen.require_choice(on_conflict, ON_CONFLICT, "--on-conflict")
    screen.require_choice(category, EXAMPLE_CATEGORIES, "--category")
    if (namespace is None) is not tables:
        raise typer.BadParameter("give either --namespace or --tables", param_hint="--namespace")
    began = time.monotonic()
    parts: dict[str, _Outcome] = {}
    lost: dict[str, ChordwiseError] = {}
    with screen.connect() as client, screen.Ticker() as ticker:
        ticker.show("books read", 0, 1)
        send = partial(client.import_examples, book, on_conflict=on_conflict, category=category)
        follow = partial(_follow, client, ticker) if wait else _unfollowed
        if namespace is not None:
            overall = follow(send(namespace=namespace, strict=strict, dry_run=dry_run))
        else:
            overall, parts, lost = _into_tables(send, follow, strict=strict, dry_run=dry_run)
    report = overall.report
    if screen.as_json():
        by_table = {name: _as_json(part) for name, part in parts.items()}
        failed = {name: str(error) for name, error in lost.items()}
        screen.print_json(_as_json(overall) | ({"tables": by_table, "failed_tables": failed} if tables else {}))
    else:
        _print_flaws(report.errors, report.errors_total)
        _print_flaws(report.warnings, report.warnings_total, prefix="warning: ")
        _show_book(report)
        elapsed_s = time.monotonic() - began
        for name, part in parts.items():
            _show_outcome(part, elapsed_s=elapsed_s, prefix=f"{name}: ")
        if not parts and not lost:
            _show_outcome(overall, elapsed_s=elapsed_s)
    screen.warn_of_each([f"{name}: {error}" for name, error in lost.items()])
    if lost:
        others = (
            f"; the others are in {', '.join(sorted(parts.keys() - lost.keys()))}" if parts.keys() - lost.keys() else ""
        )
        raise ChordwiseError(f"{screen.plural(len(lost), 'table')} not complete: {', '.join(lost)}{others}")
    outcomes = [*parts.values()] or [overall]
    for outcome in outcomes:
        _require_searchable(outcome)
    total = report.statistics.get("total")
    if report.errors_total and total is not None:
        result = "were refused; all others went in" if parts or report.job_id is not None else "would be refused"
        raise ChordwiseError(f"{total.refused} of {screen.plural(total.read, 'row')} {result}")
    for job in (outcome.job for outcome in outcomes):
        if job is not None and job.failed:
            raise ChordwiseError(f"{job.failed} of {job.total} rows were not stored: {job.errors[0].detail}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """One import with its final job, if it was waited for. ``lost``: rows of the sample that searches do not find."""

    report: ExamplesImport
    job: Job | None = None
    verified: ExamplesVerification | None = None
    lost: Sequence[SampledExample] = ()


def _unfollowed(report: ExamplesImport) -> _Outcome:
    return _Outcome(report=report)


def _follow(client: Chordwise, ticker: screen.Ticker, report: ExamplesImport) -> _Outcome:
    """Wait for the job of an import, and look its rows up."""
    if not report.job_id:
        return _Outcome(report=report)
    job = client.wait(report.job_id, on_progress=lambda state: ticker.show_finished("rows indexed", state))
    verified = client.verify_examples(report.job_id, sample=_SAMPLE)
    return _Outcome(report=report, job=job, verified=verified, lost=_lost(client, verified, ticker))


def _into_tables(
    send: Callable[..., ExamplesImport], follow: Callable[[ExamplesImport], _Outcome], *, strict: bool, dry_run: bool
) -> tuple[_Outcome, dict[str, _Outcome], dict[str, ChordwiseError]]:
    """Check the whole book, then send each of its categories that has a good row to its own namespace, and follow them
    once all are sent: one that takes long, or cannot be stored, stops no other.

    Return the outcome of the check, the imports by namespace, and what went wrong by namespace; there are none of either
    after a dry run or a refusal.
    """
    check = _Outcome(report=send(namespace=EXAMPLE_NAMESPACES[0], strict=False, dry_run=True))
    total = check.report.statistics["total"]
    if dry_run:
        return check, {}, {}
    reason = None
    if strict and total.refused:
        reason = f"not all of {total.read} rows can be taken, and nothing was stored"
    elif not total.accepted:
        reason = "there is no good row in the book, and nothing was stored"
    if reason is not None:
        return _Outcome(report=replace(check.report, refused_because=reason).received(check.report.raw)), {}, {}
    sent: dict[str, ExamplesImport] = {}
    parts: dict[str, _Outcome] = {}
    lost: dict[str, ChordwiseError] = {}
    for name, table in zip(EXAMPLE_CATEGORIES, EXAMPLE_NAMESPACES, strict=True):
        if not check.report.statistics[name].accepted:
            continue
        try:
            sent[table] = send(namespace=table, category=name, strict=False, dry_run=False)
        except ChordwiseError as error:
            lost[table] = error
    for table, report in sent.items():
        try:
            parts[table] = follow(report)
        except ChordwiseError as error:
            parts[table], lost[table] = _Outcome(report=report), error
    return check, parts, lost


@examples.command("template")
def template(
    file: Annotated[Path, Argument(metavar="FILE", dir_okay=False, help="File to write.")],
    force: Annotated[bool, Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write an empty book: the four sheets with one row each, and a filling guide."""
    if file.suffix.lower() != ".xlsx":
        raise typer.BadParameter("must end in .xlsx", param_hint="FILE")
    if file.exists() and not force:
        raise ChordwiseError(f"{file} exists already; --force overwrites it")
    with screen.connect() as client:
        content = client.examples_template()
    with file_errors(file, "written"):
        file.write_bytes(content)
    screen.report({"file": str(file), "bytes": len(content)}, f"wrote {file}")


@examples.command("statistics")
def statistics(namespace: Annotated[str, Option("--namespace", "-n", help="The knowledge base.")]) -> None:
    """Count the stored examples by category, grade and tag, with their lengths and exact duplicates."""
    with screen.connect() as client:
        library = client.example_statistics(namespace=namespace)
    if screen.as_json():
        screen.print_json(library.raw)
        return
    rows = (
        (name, stored.examples, _lengths(stored), _counts(stored.grades), _counts(stored.tags))
        for name, stored in (*library.categories.items(), ("total", library.total))
    )
    screen.print_table(("category", "examples", "characters", "grades", "tags"), rows, numbers=("examples",))
    duplicates = library.duplicates
    if duplicates.surplus:
        first = ", ".join(duplicates.groups[0]) if duplicates.groups else ""
        screen.say(f"{screen.plural(duplicates.surplus, 'exact duplicate')}, such as: {screen.clean(first)}")


def _lost(client: Chordwise, verified: ExamplesVerification, ticker: screen.Ticker) -> list[SampledExample]:
    """Return the rows of the sample that a query with their own words does not find."""
    if not verified.sample:
        return []
    questions = [
        {"query_text": row.user_input[:_LONGEST_QUESTION], **({"filters": {"type": row.type}} if row.type else {})}
        for row in verified.sample
    ]
    results = client.query_many(
        questions,
        namespace=verified.namespace,
        top_k=_LOOKED_AT,
        on_result=lambda result: ticker.show("rows asked for", result.index + 1, len(questions)),
    )
    # Of several rows with the same question any counts: their order is arbitrary.
    return [
        row
        for row, result in zip(verified.sample, results, strict=True)
        if not any(
            hit.document_id == row.document_id or hit.metadata.get("user_input") == row.user_input
            for hit in _answered(result).chunks
        )
    ]


def _answered(result: BatchedAnswer) -> QueryResult:
    """Return the answer. Raises ChordwiseError for a query without one."""
    if result.answer is None:
        raise ChordwiseError(f"a row could not be asked for: {(result.error or {}).get('detail') or result.status}")
    return result.answer


def _print_flaws(flaws: Sequence[BookFlaw], total: int, *, prefix: str = "") -> None:
    lines = [screen.clean(str(flaw)) for flaw in flaws]
    if total > len(lines):
        lines.append(f"and {total - len(lines)} more")
    sys.stderr.writelines(f"{prefix}{line}\n" for line in lines)


def _show_book(report: ExamplesImport) -> None:
    rows = (
        (name, *attrgetter(*_COUNTS)(counts), _counts(counts.grades), _counts(counts.tags))
        for name, counts in report.statistics.items()
        if name != "total"
    )
    screen.print_table(("category", *_COUNTS, "grades", "tags"), rows, numbers=_COUNTS)


def _show_outcome(outcome: _Outcome, *, elapsed_s: float, prefix: str = "") -> None:
    report, verified = outcome.report, outcome.verified
    accepted = screen.plural(report.statistics["total"].accepted, "row") if "total" in report.statistics else "no rows"
    if report.refused_because is not None:
        screen.say(f"{prefix}nothing was stored")
    elif report.job_id is None:
        screen.say(f"{prefix}{accepted} in order; nothing was stored, because this was a dry run")
    elif verified is None:
        screen.say(f"{prefix}{accepted} accepted as job {report.job_id}")
        screen.say(f"follow with: chordwise jobs {report.job_id} --watch")
    else:
        sample = len(verified.sample)
        screen.say(
            f"{prefix}{verified.searchable} of {screen.plural(verified.rows, 'row')} searchable,"
            f" {sample - len(outcome.lost)} of {sample} found by their own words,"
            f" in {elapsed_s:.1f} s (job {report.job_id})"
        )


def _lengths(stored: StoredCategory) -> str:
    lengths = stored.lengths
    return f"{lengths.shortest} to {lengths.longest}, mean {lengths.mean}" if lengths else ""


def _counts(counts: Mapping[str, int]) -> str:
    """Format the most frequent names with their counts."""
    first = [f"{name or 'none'} {count}" for name, count in islice(counts.items(), _TAGS_SHOWN)]
    return ", ".join([*first, "…"] if len(counts) > _TAGS_SHOWN else first)


def _as_json(outcome: _Outcome) -> dict[str, Any]:
    job, verified = outcome.job, outcome.verified
    verification = verified and {**verified.raw, "not_found": [row.document_id for row in outcome.lost]}
    return {**outcome.report.raw, "job": job and job.raw, "verification": verification}


def _require_searchable(outcome: _Outcome) -> None:
    """Raise ChordwiseError for a refused import, and for accepted rows that cannot be found."""
    verified, lost = outcome.verified, outcome.lost
    if outcome.report.refused_because is not None:
        raise ChordwiseError(outcome.report.refused_because.rstrip("."))
    if verified is not None and verified.searchable < verified.rows:
        first = verified.missing[0] if verified.missing else None
        example = f", the first is {first.document_id} ({first.code or first.status})" if first else ""
        raise ChordwiseError(f"{verified.rows - verified.searchable} of {verified.rows} rows cannot be found{example}")
    if lost:
        raise ChordwiseError(f"{screen.plural(len(lost), 'row')} not found by their own words: {lost[0].document_id}")
