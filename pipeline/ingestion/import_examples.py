"""Import a book of examples: read it, check every row, accept the valid ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from pipeline.errors import MalformedDocument
from pipeline.examples.checks import Checked, check
from pipeline.examples.example import Book, Category, Flaw, upload_of
from pipeline.examples.json_book import json_tables
from pipeline.examples.report import MOST_FLAWS, findings, flaws, pointer_to
from pipeline.examples.workbook_book import workbook_tables
from pipeline.filters import lenient_json
from pipeline.ingestion.accept import AcceptedJob, Batch, OnConflict, Refusal, accept
from pipeline.jobs.computation import BookForm, Computation, Done
from pipeline.outbound import json_limits
from pipeline.parsing import decode
from pipeline.records import JobId, Namespace, TenantId
from pipeline.resources import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class BookOutcome:
    """The outcome of a book. Without a ticket nothing was stored; ``refused_because`` gives the reason of a refusal."""

    checked: Checked
    ticket: AcceptedJob | None = None
    refused_because: str | None = None


def import_book(computation: Computation, use: Resources, *, ring: Callable[[AcceptedJob], None]) -> Done:
    """Import the book in the body; ``asked`` has its form and `hand_in`'s parameters. ``about``: ``job_id``, or
    ``refused`` with the reason."""
    parameters = computation.asked
    book = _READERS[BookForm(parameters["form"])](computation.body, use)
    imported = hand_in(
        book.only(None if parameters["category"] is None else Category(parameters["category"])),
        tenant_id=computation.tenant_id,
        namespace=Namespace(parameters["namespace"]),
        request_id=computation.request_id,
        on_conflict=parameters["on_conflict"],
        strict=parameters["strict"],
        dry_run=parameters["dry_run"],
        name=parameters["name"],
        job_id=JobId(parameters["job_id"]),
        use=use,
        ring=ring,
    )
    job_id = None if imported.ticket is None else imported.ticket.job_id
    about = {"job_id": job_id, "refused": imported.refused_because}
    return Done(body=orjson.dumps(_report(imported)), about=about)


def read_workbook(body: bytes, use: Resources) -> Book:
    """Parse the book in an Excel workbook, in the parser process. Raises Rejected, or ParserUnavailable."""
    return workbook_tables(use.parser.tables(body), most_rows=use.settings.max_examples_per_book)


def read_json(body: bytes, use: Resources) -> Book:
    """Parse the book in a JSON file, in any supported encoding. Raises Rejected."""
    try:
        value = json_limits.loads(decode(body).encode("utf-8", "surrogatepass"))
    except json_limits.TooComplex as error:
        raise MalformedDocument(f"the file {error}") from None
    except orjson.JSONDecodeError as error:
        position = f"line {error.lineno} column {error.colno}"
        raise MalformedDocument(f"the file is not JSON: {error.msg}, at {position}") from None
    if not isinstance(value, dict):
        raise MalformedDocument("the file must hold a JSON object with a list of rows for each category")
    return json_tables(value, most_rows=use.settings.max_examples_per_book)


def read_request(body: bytes, use: Resources) -> Book:
    """Parse the book in the JSON body of a request, whose shape the gateway has checked. Raises Rejected."""
    try:
        value = orjson.loads(body.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError:  # lone surrogates, which orjson refuses and the gateway reports as flaws of a row
        value = lenient_json.loads(body.decode("utf-8-sig"))
    return json_tables(value["examples"], most_rows=use.settings.max_examples_per_book)


_READERS = {
    BookForm.WORKBOOK: read_workbook,
    BookForm.JSON_FILE: read_json,
    BookForm.JSON_BODY: read_request,
}


def hand_in(
    book: Book,
    *,
    tenant_id: TenantId,
    namespace: Namespace,
    request_id: str,
    on_conflict: OnConflict,
    strict: bool,
    dry_run: bool,
    name: str | None,
    job_id: JobId | None = None,
    use: Resources,
    ring: Callable[[AcceptedJob], None],
) -> BookOutcome:
    """Check the book and accept its valid rows as one job, with refused rows as failed items. Stores nothing with
    ``dry_run``, without a valid row, or with ``strict`` and an invalid one. ``name``: the file's. A repeated ``job_id``
    finds its job. Raises as `accept`."""
    checked = check(book)
    if dry_run:
        return BookOutcome(checked=checked)
    if not checked.examples or (strict and checked.refused):
        return BookOutcome(checked=checked, refused_because=_why(checked))
    entries = [upload_of(example, book=name) for example in checked.examples]
    batch = Batch(
        tenant_id=tenant_id,
        namespace=namespace,
        request_id=request_id,
        entries=[*entries, *(_refusal(row) for row in checked.refused)],
        on_conflict=on_conflict,
        job_id=job_id,
    )
    return BookOutcome(checked=checked, ticket=accept(batch, use, ring=ring))


def _report(imported: BookOutcome) -> dict[str, Any]:
    """Return the report as JSON."""
    checked, ticket = imported.checked, imported.ticket
    errors = flaws(checked.errors[:MOST_FLAWS])
    if imported.refused_because is not None:
        return {**findings(checked), "errors": errors}
    return {
        "job_id": None if ticket is None else ticket.job_id,
        "status": "validated" if ticket is None else "queued",
        "total": 0 if ticket is None else ticket.total,
        **findings(checked),
        "errors": errors,
    }


def _refusal(row: list[Flaw]) -> Refusal:
    first = row[0]
    more = f"; and {len(row) - 1} more in this row" if len(row) > 1 else ""
    return Refusal(document_id=None, code=f"example_{first.code}", detail=f"{first}{more}", pointer=pointer_to(first))


def _why(checked: Checked) -> str:
    rows = sum(statistic.read for statistic in checked.statistics.values())
    errors = checked.errors
    if not errors:
        return "there is no example in the book: no row below the headers of sheets named qa, record, query or greeting"
    more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
    what = "no row can be taken" if not checked.examples else f"not all of {rows} rows can be taken"
    return f"{what}, and nothing was stored: {errors[0]}{more}"
