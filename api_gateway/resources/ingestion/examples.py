"""The example library: submit a book, get its template, count the stored examples and verify an import."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Depends, Response
from pydantic import Field
from pydantic.json_schema import WithJsonSchema

from api_gateway.http.auth import Requires, require_same_tenant
from api_gateway.http.bodies import MAX_BODY_BYTES, read_json_body
from api_gateway.http.caller import Caller, FullReader, Writer
from api_gateway.http.fields import NamespaceParameter, NewNamespaceName, Shape, TenantWire
from api_gateway.http.idempotency import work_id
from api_gateway.http.problems import Problem, invalid, pointer, printable
from api_gateway.http.responses import json_response
from api_gateway.http.route_descriptions import Parameter, json_body, route
from api_gateway.live.computations import compute
from api_gateway.resources.ingestion.files import sent_form, split_form
from api_gateway.resources.jobs import not_found as job_not_found
from api_gateway.resources.jobs import parse_job_id
from api_gateway.resources.route_parts import (
    CurrentGateway,
    decode_own,
    existing,
    file_form,
    media_type_of_body,
    validated,
)
from chordwise.contract.example import BookFlaw, BookStatistics, ExampleStatistics, ExamplesVerification
from pipeline.administration.list_documents import count_examples, verify_import
from pipeline.errors import UnsupportedMediaType
from pipeline.examples.example import LENGTHS, Category, Spread, Stored, summed
from pipeline.examples.report import ordered
from pipeline.examples.template import template
from pipeline.ingestion.accept import OnConflict
from pipeline.jobs.computation import BookForm, ComputationKind
from pipeline.parsing.formats import JSON, XLSX, media_type_of
from pipeline.records import Namespace


class BookCategories(Shape):
    """Statistics of a book, in all and by category."""

    total: BookStatistics
    qa: BookStatistics
    record: BookStatistics
    query: BookStatistics
    greeting: BookStatistics


class ExamplesReport(Shape):
    """The outcome for a book: its job, in which every refused row is a failed item, or `validated` after a dry run.
    `errors` and `warnings` are the first 1,000."""

    job_id: str | None
    status: Literal["queued", "validated"]
    total: int
    statistics: BookCategories
    errors: list[BookFlaw]
    errors_total: int
    warnings: list[BookFlaw]
    warnings_total: int


_TRUTHS = {"true": True, "1": True, "false": False, "0": False}
_ROW = {
    "type": "object",
    "required": ["user_input", "agent_response"],
    "properties": {
        "user_input": {"type": "string"},
        "agent_response": {"type": "string"},
        "tags": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]},
        "quality_grade": {"type": "string", "enum": ["优秀", "良好", "一般"]},
        "id": {"type": "string"},
        "notes": {"type": "string"},
    },
}
_BOOK = {
    "type": "object",
    "properties": {
        f"{category}_examples": {"type": "array", "items": _ROW} for category in ("qa", "record", "query", "greeting")
    },
}


class ExamplesForm(TenantWire):
    """How to read a book. `category`: only its sheets. `strict`: nothing of it if one row is wrong."""

    namespace: NewNamespaceName
    category: Annotated[Category, Field(strict=False)] | None = None
    on_conflict: OnConflict = "replace"
    strict: bool = False


class ExamplesRequest(ExamplesForm):
    """A book in its JSON form. The keys of `examples` may also be `qa`, `record`, `query`, `greeting`."""

    examples: Annotated[dict[str, Any], WithJsonSchema(_BOOK)]


def to_form(values: dict[str, Any]) -> ExamplesForm:
    """Return the form fields. Raises Problem 422."""
    if "strict" in values:
        values["strict"] = _TRUTHS.get(values["strict"].strip().lower(), values["strict"])
    return validated(ExamplesForm, values)


CATEGORIES = [category.value for category in Category]


def stored_json(
    namespace: Namespace, categories: Mapping[str, Stored], surplus: int, groups: Sequence[Sequence[str]]
) -> dict[str, Any]:
    """Convert the counts of a namespace to their JSON form."""
    return {
        "namespace": namespace,
        "total": _stored(summed(categories.values())),
        "categories": {name: _stored(category) for name, category in categories.items()},
        "duplicates": {"surplus": surplus, "groups": groups},
    }


def _stored(category: Stored) -> dict[str, Any]:
    lengths = _lengths(category.lengths) if category.examples else None
    tags = ordered(category.tags)
    return {"examples": category.examples, "grades": ordered(category.grades), "tags": tags, "lengths": lengths}


def _lengths(spread: Spread) -> dict[str, Any]:
    steps = {str(step): spread.up_to[step] for step in LENGTHS} | {"longer": spread.up_to[None]}
    mean = round(spread.total / spread.count, 1) if spread.count else 0.0
    return {"shortest": spread.shortest, "longest": spread.longest, "mean": mean, "up_to": steps}


router = APIRouter(tags=["examples"])

_LONGEST_NAME = 255
_EXAMPLE = {
    "namespace": "kb",
    "examples": {
        "qa_examples": [
            {
                "user_input": "血压150/95需要马上去医院吗？",
                "agent_response": "先安静休息十分钟再量一次；若仍高于140/90，请尽快联系医生。",
                "tags": ["健康咨询", "高血压"],
                "quality_grade": "优秀",
            }
        ]
    },
}
_BODY = json_body(ExamplesRequest, _EXAMPLE)
_WORKBOOK = {XLSX: {"schema": {"type": "string"}}}
_BODY["requestBody"]["content"] |= file_form(ExamplesForm)


@router.post(
    "/v1/examples",
    **route(
        "Submit a book of examples",
        ExamplesReport,
        "The good rows are durable; the refused ones are among the errors, here and of the job.",
        headers={"Location": "The job."},
        also={200: "The book was only looked at, as `dry_run` asked."},
        status=202,
    ),
    openapi_extra=_BODY,
)
async def submit(
    caller: Writer, dry_run: Annotated[bool, Parameter(description="Look at the book and store nothing.")] = False
) -> Response:
    """Submit a workbook with the sheets `qa`, `record`, `query`, `greeting`, or the same as JSON, as a file or as the
    body. Each row becomes a document; submitting the book again replaces them. If no row is valid, or with `strict` one
    is not, the answer is 422 with the same statistics, and nothing was stored."""
    if media_type_of_body(caller.request) == "multipart/form-data":
        form, parameters, body = await _sent_file(caller)
    else:
        body = await read_json_body(caller.request, caller.gateway.settings.max_body_bytes, setting=MAX_BODY_BYTES)
        form = await caller.gateway.run_heavy(
            lambda: validated(ExamplesRequest, decode_own(body, caller.principal).value)
        )
        parameters = {"form": BookForm.JSON_BODY, "name": None}
    parameters |= {
        "category": form.category,
        "namespace": form.namespace,
        "on_conflict": form.on_conflict,
        "strict": form.strict,
        "dry_run": dry_run,
        "job_id": work_id(caller.request) or str(uuid.uuid4()),
    }
    done = await compute(caller, ComputationKind.BOOK, parameters, body=body)
    if (reason := done.about["refused"]) is not None:
        extensions = orjson.loads(done.body)
        errors = extensions.pop("errors")
        raise Problem(422, "examples_refused", f"{reason}.", errors=errors, extensions=extensions)
    job_id = done.about["job_id"]
    if job_id is None:
        return Response(done.body, media_type="application/json")
    location = {"Location": f"/v1/jobs/{job_id}"}
    return Response(done.body, status_code=202, headers=location, media_type="application/json")


async def _sent_file(caller: Caller) -> tuple[ExamplesForm, dict[str, Any], bytes]:
    """Return the form, the book's format and file name, and its bytes."""
    async with sent_form(caller, caller.gateway.settings.max_body_bytes, setting=MAX_BODY_BYTES) as sent:
        values, files = split_form(sent)
        form = to_form(values)
        require_same_tenant(caller.principal, form.tenant_id)
        for name, _ in files:
            if name != "file":
                raise invalid(
                    [{"pointer": pointer([name]), "detail": "is a file; the book belongs into the part file"}]
                )
        if len(files) != 1:
            raise invalid([{"pointer": "/file", "detail": f"is needed exactly once, not {len(files)} times"}])
        upload = files[0][1]
        file_name = printable(upload.filename or "")[:_LONGEST_NAME] or None
        media_type = media_type_of(file_name, upload.content_type).partition(";")[0]
        if media_type not in (XLSX, JSON):
            raise UnsupportedMediaType(f"a book of examples is an .xlsx or .json file, not {media_type}")
        body = await upload.read()
    return form, {"form": BookForm.WORKBOOK if media_type == XLSX else BookForm.JSON_FILE, "name": file_name}, body


@router.get(
    "/v1/examples/template.xlsx",
    **route("Get the template of a book", None, "An Excel workbook to fill in.", content=_WORKBOOK),
    response_class=Response,
    dependencies=[Depends(Requires("read"))],
)
async def get_template(gateway: CurrentGateway) -> Response:
    """Return the four sheets with headers and one row each, lists of choices for the grades, and a filling guide in
    Chinese."""
    body = await gateway.run(template)
    disposition = {"Content-Disposition": 'attachment; filename="examples-template.xlsx"'}
    return Response(body, headers=disposition, media_type=XLSX)


@router.get(
    "/v1/examples/statistics",
    **route("Count the stored examples", ExampleStatistics, "Counts of what searches can find.", 404),
)
async def statistics(
    caller: FullReader,
    namespace: Annotated[NamespaceParameter, Parameter(description="The namespace the examples are in.")],
) -> Response:
    """Return the counts by category, grade and tag, with lengths and exact duplicates."""

    def read() -> dict[str, Any]:
        counts = count_examples(caller.tenant_id, namespace, CATEGORIES, caller.use)
        not_found = Problem(404, "namespace_not_found", f"There is no namespace {namespace}.")
        categories, duplicates = existing(counts, not_found)
        return stored_json(namespace, categories, *duplicates)

    return json_response(await caller.gateway.run_heavy(read))


@router.get(
    "/v1/examples/verification",
    **route("Verify an import", ExamplesVerification, "Which accepted rows can be found.", 404),
)
async def verification(
    caller: FullReader,
    job_id: Annotated[str, Parameter(max_length=64, description="The job of the import.")],
    sample: Annotated[int, Parameter(ge=0, le=100, description="How many rows to name for trying them out.")] = 10,
) -> Response:
    """Compare the job with the visible documents; the first 100 missing ones are named."""

    parsed_id = parse_job_id(job_id)

    result = await caller.gateway.run_heavy(verify_import, caller.tenant_id, caller.use, parsed_id, sample=sample)
    return json_response(existing(result, job_not_found()))
