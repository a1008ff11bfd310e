"""Import a book of examples: read it, look at every row, hand in those that are in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import orjson

from pipeline.core.examples import Book, Checked, Flaw, check, json_tables, upload_of, workbook_tables
from pipeline.core.parsing import decode
from pipeline.errors import MalformedDocument
from pipeline.flows.intake import Batch, OnConflict, Refusal, Ticket, accept
from pipeline.flows.resources import Resources
from pipeline.records import Namespace, TenantId

_LONGEST_POINTER = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What became of a book. Without a ticket nothing was stored; ``refused_because`` says why, if it was to be."""

    checked: Checked
    ticket: Ticket | None = None
    refused_because: str | None = None


def read_workbook(body: bytes, use: Resources) -> Book:
    """The book in an Excel workbook, read in the parser process. Raises Rejected, or ParserUnavailable."""
    return workbook_tables(use.parser.tables(body), most_rows=use.settings.max_examples_per_book)


def read_json(body: bytes, use: Resources) -> Book:
    """The book in a JSON file, in any encoding that files may have. Raises Rejected."""
    try:
        value = orjson.loads(decode(body))
    except orjson.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise MalformedDocument(f"the file is not JSON: {error.msg}, at {place}") from None
    if not isinstance(value, dict):
        raise MalformedDocument("the file must hold a JSON object with a list of rows for each category")
    return json_tables(value, most_rows=use.settings.max_examples_per_book)


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
    use: Resources,
    ring: Callable[[Ticket], None],
) -> Imported:
    """Check the book and accept its good rows as one job, in which each refused row is a failed item.

    Nothing is stored with ``dry_run``, if no row is good, and, with ``strict``, if one is not. ``name`` is that of the
    file. Raises what `accept` raises.
    """
    checked = check(book)
    if dry_run:
        return Imported(checked=checked)
    if not checked.examples or (strict and checked.refused):
        return Imported(checked=checked, refused_because=_why(checked))
    entries = [upload_of(example, book=name) for example in checked.examples]
    batch = Batch(
        tenant_id=tenant_id,
        namespace=namespace,
        request_id=request_id,
        entries=[*entries, *(_refusal(flaws) for flaws in checked.refused)],
        on_conflict=on_conflict,
    )
    return Imported(checked=checked, ticket=accept(batch, use, ring=ring))


def pointer_to(flaw: Flaw) -> str:
    """A JSON Pointer to the place of a flaw: sheet, row, column."""
    steps = (flaw.sheet, flaw.row, flaw.column)
    parts = (str(step).replace("~", "~0").replace("/", "~1") for step in steps if step is not None)
    return "".join(f"/{part}" for part in parts)[:_LONGEST_POINTER]


def _refusal(flaws: list[Flaw]) -> Refusal:
    first = flaws[0]
    more = f"; and {len(flaws) - 1} more in this row" if len(flaws) > 1 else ""
    return Refusal(document_id=None, code=f"example_{first.code}", detail=f"{first}{more}", pointer=pointer_to(first))


def _why(checked: Checked) -> str:
    rows = sum(each.read for each in checked.statistics.values())
    errors = checked.errors
    if not errors:
        return "there is no example in the book: no row below the headers of sheets named qa, record, query or greeting"
    more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
    what = "no row can be taken" if not checked.examples else f"not all of {rows} rows can be taken"
    return f"{what}, and nothing was stored: {errors[0]}{more}"
