"""The example library: submit a book, get its template, count the stored examples and verify an import."""

from __future__ import annotations

import uuid
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends, Request
from fastapi import Query as Parameter
from starlette.datastructures import UploadFile
from starlette.responses import Response

from api_gateway.gateway import Gateway
from api_gateway.http.auth import Reader, Requires, Writer, require_same_tenant
from api_gateway.http.bodies import MAX_BODY_BYTES, decode_json, read_json_body
from api_gateway.http.descriptions import json_body, route
from api_gateway.http.fields import namespace_parameter
from api_gateway.http.idempotency import work_id
from api_gateway.http.problems import Problem, invalid, pointer, printable
from api_gateway.http.responses import json_response
from api_gateway.live.computations import compute
from api_gateway.resources.ingestion import example_book
from api_gateway.resources.ingestion.example_book import ExamplesReport, ExampleStatistics, ExamplesVerification
from api_gateway.resources.ingestion.files import read_form
from api_gateway.resources.jobs import not_found as job_not_found
from api_gateway.resources.jobs import parse_job_id
from api_gateway.resources.route_parts import CurrentGateway, existing, file_form, media_type_of_body, validated
from pipeline.administration.list_documents import count_examples, verify_import
from pipeline.errors import UnsupportedMediaType
from pipeline.examples.template import template
from pipeline.jobs.computation import BookForm, ComputationKind
from pipeline.parsing.formats import JSON, XLSX, media_type_of
from pipeline.tenants.accounts import Principal

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
_BODY = json_body(example_book.ExamplesRequest, _EXAMPLE)
_WORKBOOK = {XLSX: {"schema": {"type": "string"}}}
_BODY["requestBody"]["content"] |= file_form(example_book.ExamplesForm)


@router.post(
    "/v1/examples",
    **route(
        "Submit a book of examples",
        202,
        ExamplesReport,
        "The good rows are durable; the refused ones are among the errors, here and of the job.",
        headers={"Location": "The job."},
        also={200: "The book was only looked at, as `dry_run` asked."},
    ),
    openapi_extra=_BODY,
)
async def submit(
    request: Request,
    gateway: CurrentGateway,
    principal: Writer,
    dry_run: Annotated[bool, Parameter(description="Look at the book and store nothing.")] = False,
) -> Response:
    """Submit a workbook with the sheets `qa`, `record`, `query`, `greeting`, or the same as JSON, as a file or as the
    body. Each row becomes a document; submitting the book again replaces them. If no row is valid, or with `strict` one
    is not, the answer is 422 with the same statistics, and nothing was stored."""
    if media_type_of_body(request) == "multipart/form-data":
        form, parameters, body = await _sent_file(request, principal, gateway)
    else:
        body = await read_json_body(request, gateway.settings.max_body_bytes, setting=MAX_BODY_BYTES)
        form = await gateway.run_heavy(_sent_json, body, principal)
        parameters = {"form": BookForm.JSON_BODY, "name": None}
    parameters |= {
        "category": form.category,
        "namespace": form.namespace,
        "on_conflict": form.on_conflict,
        "strict": form.strict,
        "dry_run": dry_run,
        "job_id": work_id(request) or str(uuid.uuid4()),
    }
    done = await compute(
        gateway,
        ComputationKind.BOOK,
        principal.tenant_id,
        parameters,
        body=body,
        receive=request.receive,
        actor=principal.actor,
        request_id=request.state.request_id,
    )
    if (reason := done.about["refused"]) is not None:
        extensions = orjson.loads(done.body)
        errors = extensions.pop("errors")
        raise Problem(422, "examples_refused", f"{reason}.", errors=errors, extensions=extensions)
    job_id = done.about["job_id"]
    if job_id is None:
        return Response(done.body, media_type="application/json")
    location = {"Location": f"/v1/jobs/{job_id}"}
    return Response(done.body, status_code=202, headers=location, media_type="application/json")


async def _sent_file(
    request: Request, principal: Principal, gateway: Gateway
) -> tuple[example_book.ExamplesForm, dict[str, Any], bytes]:
    """Return the form, the book's format and file name, and its bytes."""
    sent = await read_form(request, gateway, gateway.settings.max_body_bytes, setting=MAX_BODY_BYTES)
    try:
        form = example_book.to_form([(name, value) for name, value in sent.multi_items() if isinstance(value, str)])
        require_same_tenant(principal, form.tenant_id)
        files = [(name, value) for name, value in sent.multi_items() if isinstance(value, UploadFile)]
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
    finally:
        await sent.close()
    return form, {"form": BookForm.WORKBOOK if media_type == XLSX else BookForm.JSON_FILE, "name": file_name}, body


def _sent_json(body: bytes, principal: Principal) -> example_book.ExamplesForm:
    decoded = decode_json(body)
    require_same_tenant(principal, decoded.value.get("tenant_id"))
    return validated(example_book.ExamplesRequest, decoded.value)


@router.get(
    "/v1/examples/template.xlsx",
    **route("Get the template of a book", 200, None, "An Excel workbook to fill in.", content=_WORKBOOK),
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
    **route("Count the stored examples", 200, ExampleStatistics, "Counts of what searches can find.", 404),
)
async def statistics(
    gateway: CurrentGateway,
    principal: Reader,
    namespace: Annotated[str, Parameter(description="The namespace the examples are in.")],
) -> Response:
    """Return the counts by category, grade and tag, with lengths and exact duplicates."""
    within = namespace_parameter(namespace)

    def read() -> dict[str, Any]:
        counts = count_examples(principal.tenant_id, within, example_book.CATEGORIES, gateway.resources)
        not_found = Problem(404, "namespace_not_found", f"There is no namespace {within}.")
        return example_book.stored(within, *existing(counts, not_found))

    return json_response(await gateway.run_heavy(read))


@router.get(
    "/v1/examples/verification",
    **route("Verify an import", 200, ExamplesVerification, "Which accepted rows can be found.", 404),
)
async def verification(
    gateway: CurrentGateway,
    principal: Reader,
    job_id: Annotated[str, Parameter(max_length=64, description="The job of the import.")],
    sample: Annotated[int, Parameter(ge=0, le=100, description="How many rows to name for trying them out.")] = 10,
) -> Response:
    """Compare the job with the visible documents; the first 100 missing ones are named."""

    parsed_id = parse_job_id(job_id)

    def read() -> dict[str, Any]:
        result = verify_import(principal.tenant_id, gateway.resources, parsed_id, sample=sample)
        return example_book.verification(existing(result, job_not_found()))

    return json_response(await gateway.run_heavy(read))
