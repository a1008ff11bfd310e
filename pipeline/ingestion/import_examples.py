"""Import a book of examples: read it, check every row, accept the valid ones."""

from collections.abc import Callable
from typing import Any

import orjson

from chordwise.contract.example import BookFlaw
from chordwise.contract.job import JobError
from pipeline.errors import MalformedDocument
from pipeline.examples.checks import Checked, check
from pipeline.examples.example import Book, Category, upload_of
from pipeline.examples.json_book import json_tables
from pipeline.examples.report import MOST_FLAWS, findings, flaws, pointer_to
from pipeline.examples.workbook_book import workbook_tables
from pipeline.filters import lenient_json
from pipeline.ingestion.accept import AcceptedJob, Batch, accept
from pipeline.jobs.computation import BookForm, Computation, Done
from pipeline.outbound import json_limits
from pipeline.parsing.encodings import decode
from pipeline.records import JobId, Namespace
from pipeline.resources import Resources


def import_book(computation: Computation, use: Resources, *, notify: Callable[[AcceptedJob], None]) -> Done:
    """Check the book in the body and accept its valid rows as one job, with refused rows as failed items.

    ``asked``: the book's ``form``, ``category`` and file ``name``; ``namespace``, ``on_conflict`` and ``job_id`` of the
    job, which a repetition finds again; ``dry_run`` stores nothing, and ``strict`` nothing unless every row is valid.
    ``about``: ``job_id``, or ``refused`` with the reason. Raises as `accept`.
    """
    parameters = computation.asked
    category = parameters["category"]
    match BookForm(parameters["form"]):
        case BookForm.WORKBOOK:
            book = read_workbook(computation.body, use)
        case BookForm.JSON_FILE:
            book = read_json(computation.body)
        case BookForm.JSON_BODY:
            book = read_request(computation.body)
    checked = check(book.only(None if category is None else Category(category)))
    accepted, refused_because = None, None
    if not parameters["dry_run"]:
        if not checked.examples or (parameters["strict"] and checked.refused):
            refused_because = _why(checked)
        else:
            accepted = accept(_batch(computation, checked), use, notify=notify)
    about = {"job_id": accepted and accepted.job_id, "refused": refused_because}
    return Done(body=orjson.dumps(_report(checked, accepted, refused_because)), about=about)


_MOST_ROWS = 50_000  # of one book


def read_workbook(body: bytes, use: Resources) -> Book:
    """Parse the book in an Excel workbook, in the parser process. Raises Rejected, or ParserUnavailable."""
    return workbook_tables(use.parser.tables(body), most_rows=_MOST_ROWS)


def read_json(body: bytes) -> Book:
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
    return json_tables(value, most_rows=_MOST_ROWS)


def read_request(body: bytes) -> Book:
    """Parse the book in the JSON body of a request, whose shape the gateway has checked. Raises Rejected."""
    try:
        value = orjson.loads(body.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError:  # lone surrogates, which orjson refuses and the gateway reports as flaws of a row
        value = lenient_json.loads(body.decode("utf-8-sig"))
    return json_tables(value["examples"], most_rows=_MOST_ROWS)


def _batch(computation: Computation, checked: Checked) -> Batch:
    parameters = computation.asked
    entries = [upload_of(example, book=parameters["name"]) for example in checked.examples]
    return Batch(
        tenant_id=computation.tenant_id,
        namespace=Namespace(parameters["namespace"]),
        request_id=computation.request_id,
        entries=[*entries, *map(_refusal, checked.refused)],
        on_conflict=parameters["on_conflict"],
        job_id=JobId(parameters["job_id"]),
    )


def _report(checked: Checked, accepted: AcceptedJob | None, refused_because: str | None) -> dict[str, Any]:
    report = {**findings(checked), "errors": flaws(checked.errors[:MOST_FLAWS])}
    if refused_because is not None:
        return report
    if accepted is None:
        return {"job_id": None, "status": "validated", "total": 0, **report}
    return {"job_id": accepted.job_id, "status": "queued", "total": accepted.total, **report}


def _refusal(row: list[BookFlaw]) -> JobError:
    first = row[0]
    more = f"; and {len(row) - 1} more in this row" if len(row) > 1 else ""
    return JobError(document_id=None, code=f"example_{first.code}", detail=f"{first}{more}", pointer=pointer_to(first))


def _why(checked: Checked) -> str:
    rows = sum(statistic.read for statistic in checked.statistics.values())
    errors = checked.errors
    if not errors:
        return "there is no example in the book: no row below the headers of sheets named qa, record, query or greeting"
    more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
    what = "no row can be taken" if not checked.examples else f"not all of {rows} rows can be taken"
    return f"{what}, and nothing was stored: {errors[0]}{more}"
