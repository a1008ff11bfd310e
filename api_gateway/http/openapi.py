"""The OpenAPI document: FastAPI's description of the routes, with the shapes of bodies that the routes read themselves."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from api_gateway.http.problem_codes import codes_of
from api_gateway.http.problems import MEDIA_TYPE, TITLES
from api_gateway.http.responses import json_response
from api_gateway.http.route_descriptions import DESCRIBED, header_parameter, meaning_of
from chordwise.contract import document
from pipeline.database.worker_heartbeats import installed_version
from pipeline.tenants.idempotency import ANSWER_KEPT_S

Schema = Mapping[str, Any]

_DEEPEST = 12
_MOMENT, _UUID = "2026-01-02T09:30:00Z", "0b8f6c1e-5a4d-4f0e-9c53-8f3f1f6f2a11"

_STRINGS: Final = {
    "namespace": "kb",
    "document_id": "manual-1",
    "title": "Controller manual",
    "text": "Hold the button for five seconds.",
    "tenant_id": "acme",
    "url": "https://example.com/hooks",
    "uri": "file:manual.md",
    "media_type": "text/markdown",
    "query_text": "How do I reset the controller?",
    "profile": "default",
    "channel": "keyword",
    "namespaces": "kb",
    "tags": "controller",
    "name": "mine",
    "code": "invalid_document",
    "detail": "is required",
    "pointer": "/documents/0/text",
    "request_id": "d1f6a5c2",
    "etag": '"1-1"',
    "marker": "[1]",
    "model": "bge-m3",
    "metadata": "value",
    "sha256": "0" * 64,
    "from": "2026-01-01",
    "to": "2026-01-31",
    "import_id": "move-1",
    "cursor": "WyJqb2JzIiwiMjAyNiJd",
    "order_by": "parent_id",
    "experiment_id": "shorter-answers",
    "Last-Event-ID": "",
    "Prefer": "wait=5",
    "Cache-Control": "no-cache",
    **{name: length.example for name, length in document.LENGTHS.items() if length.example},
}
_FORMATS: Final = {
    "date-time": _MOMENT,
    "date": "2026-01-02",
    "uuid": _UUID,
    "uri": "https://example.com",
    "binary": "",
}


def example_of(schema: Schema, schemas: Mapping[str, Schema], name: str = "", depth: int = 0) -> Any:
    """Return a value that fits ``schema``. ``schemas`` holds the schemas it may refer to; ``name`` is the value's field
    name."""
    if "$ref" in schema:
        return example_of(schemas[str(schema["$ref"]).rsplit("/", 1)[-1]], schemas, name, depth + 1)
    for keyword in ("example", "const", "default"):
        if schema.get(keyword) is not None:
            return schema[keyword]
    for keyword in ("examples", "enum"):
        if schema.get(keyword):
            return schema[keyword][0]
    if "allOf" in schema:
        parts = [example_of(part, schemas, name, depth + 1) for part in schema["allOf"]]
        return {key: value for part in parts for key, value in part.items()} if isinstance(parts[0], dict) else parts[0]
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        useful = [choice for choice in choices if choice.get("type") != "null"]
        return example_of(useful[0], schemas, name, depth + 1) if useful and depth < _DEEPEST else None
    return _of_type(schema, schemas, name, depth)


def _of_type(schema: Schema, schemas: Mapping[str, Schema], name: str, depth: int) -> Any:
    match schema.get("type"):
        case "object":
            return _object(schema, schemas, depth)
        case "array":
            return _array(schema, schemas, name, depth)
        case "string":
            return _string(schema, name)
        case "integer" | "number":
            return _number(schema)
        case "boolean":
            return False
        case "null":
            return None
    return {}


def _object(schema: Schema, schemas: Mapping[str, Schema], depth: int) -> dict[str, Any]:
    required = set(schema.get("required", ()))
    example = {
        key: example_of(value, schemas, key, depth + 1)
        for key, value in schema.get("properties", {}).items()
        if depth < _DEEPEST or key in required
    }
    return example if set(example) >= required else {}


def _array(schema: Schema, schemas: Mapping[str, Schema], name: str, depth: int) -> list[Any]:
    if "prefixItems" in schema:
        return [example_of(item, schemas, name, depth + 1) for item in schema["prefixItems"]]
    if depth >= _DEEPEST or not schema.get("items"):
        return []
    return [example_of(schema["items"], schemas, name, depth + 1)] * max(1, int(schema.get("minItems", 1)))


def _string(schema: Schema, name: str) -> str:
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    if name in _STRINGS:
        return _STRINGS[name]
    if name == "id" or name.endswith("_id"):
        return _UUID
    return "a" * max(1, int(schema.get("minLength", 0))) if schema.get("pattern") else "…"


def _number(schema: Schema) -> int | float:
    least = schema.get("minimum", schema.get("exclusiveMinimum"))
    value = 1 if least is None else max(1, least)
    most = schema.get("maximum", schema.get("exclusiveMaximum"))
    if most is not None and value > most:
        value = most
    if value in (schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")):
        return value - 0.5 if most is not None else value + 1
    return value


Operation = dict[str, Any]

_JSON: Final = "application/json"
_SINGLETONS: Final = ("/v1/dictionary",)


def operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Operation]]:
    """Yield every operation: method in capitals, path, description."""
    for path, by_method in document["paths"].items():
        for method, operation in by_method.items():
            if method in ("get", "put", "post", "delete", "patch"):
                yield method.upper(), path, operation


def complete(document: dict[str, Any]) -> None:
    """Add the shared behaviour to every operation of version 1. Other dialects describe their own."""
    schemas = document["components"]["schemas"]
    readable = {path for method, path, _ in operations(document) if method == "GET"}
    for method, path, operation in operations(document):
        secured = bool(operation.get("security"))
        if not path.startswith("/v1/") and secured:
            continue
        if secured:
            _limits(operation)
            operation["responses"].pop("422", None)  # FastAPI's own description of invalid parameters
            taken = (413, 415, 422) if "requestBody" in operation else (422,) if operation.get("parameters") else ()
            for status in (400, 401, 403, 503, *taken):
                _problem(operation, status)
        _problem(operation, 431)
        if secured and method == "POST":
            _idempotency(operation)
        if secured:
            _conditions(method, path, operation, written_where_read=path in readable)
        if "requestBody" in operation:
            _problem(operation, 408)
        _problems(method, path, operation, idempotent=secured and method == "POST")
        _examples(operation, schemas)
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)


def _limits(operation: Operation) -> None:
    _problem(operation, 429)
    remainder = "The remainder: requests (`r`) that may follow at once, and seconds (`t`)."
    policy = "The limit: so many requests (`q`) in so many seconds (`w`)."
    _success_headers(operation, {"RateLimit": remainder, "RateLimit-Policy": policy})


def _idempotency(operation: Operation) -> None:
    text = (
        "A unique name for this request, 1 to 255 visible ASCII characters, best a UUID. Sent again with the same body, "
        f"the request is answered again and not done again, for {ANSWER_KEPT_S // 3600} hours; with another body it is a 422, "
        "and while it is being done a 409. Answers of status 500 and above are not kept."
    )
    _parameter(operation, "Idempotency-Key", text, "5f2b7d1c-0c0e-4a55-9d0f-3a8f3f9f3c11")
    for status in (400, 409, 422):
        _problem(operation, status)
    replayed = "`true` if this is the answer to an earlier request with the same key."
    _success_headers(operation, {"Idempotency-Replayed": replayed})


def _conditions(method: str, path: str, operation: Operation, *, written_where_read: bool) -> None:
    single = path.endswith("}") or path in _SINGLETONS
    if method == "GET" and _JSON in operation["responses"].get("200", {}).get("content", {}):
        operation["responses"]["200"].setdefault("headers", {})["ETag"] = _header("Identifies this state.")
        _parameter(
            operation, "If-None-Match", "Etags that are known; if one is that of the present state: 304.", '"a1"'
        )
        operation["responses"]["304"] = {"description": "Unchanged.", "headers": {"ETag": _header("")}}
    if method in ("PUT", "PATCH", "DELETE") and single and written_where_read:
        _parameter(operation, "If-Match", "Only if what is there has one of these etags; else 412.", '"a1"')
        if method != "DELETE":
            _parameter(operation, "If-None-Match", "`*`: only if there is nothing yet; else 412.", "*")
        for status in (409, 412):
            _problem(operation, status)


def _success_headers(operation: Operation, descriptions: Mapping[str, str]) -> None:
    for status, response in operation["responses"].items():
        if status.startswith("2"):
            headers = {name: _header(text) for name, text in descriptions.items()}
            response.setdefault("headers", {}).update(headers)


def _problem(operation: Operation, status: int) -> None:
    body = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemBody"}}}
    operation["responses"].setdefault(str(status), {"description": meaning_of(status), "content": body})


def _problems(method: str, path: str, operation: Operation, *, idempotent: bool) -> None:
    """Add the possible codes to each problem."""
    for name, response in operation["responses"].items():
        content = response.get("content", {}).get(MEDIA_TYPE)
        if content is None:
            continue
        status = int(name)
        codes = list(codes_of(method, path, status, idempotent=idempotent))
        code = codes[0] if codes else ""
        narrowed = {"properties": {"code": {"enum": codes}, "status": {"const": status}}}
        content["schema"] = {"allOf": [{"$ref": "#/components/schemas/ProblemBody"}, narrowed]}
        content["example"] = {
            "type": f"urn:chordwise:problem:{code}",
            "title": TITLES.get(status, ""),
            "status": status,
            "detail": response["description"],
            "instance": path,
            "code": code,
            "request_id": "d1f6a5c2",
        }
        if status in (429, 503):
            retry_after = _header("Seconds to wait before the next attempt.", "integer")
            response.setdefault("headers", {})["Retry-After"] = retry_after


def _examples(operation: Operation, schemas: Mapping[str, Any]) -> None:
    for parameter in operation.get("parameters", []):
        if "example" not in parameter and "examples" not in parameter:
            parameter["example"] = example_of(parameter["schema"], schemas, parameter["name"])
    bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
    for body in bodies:
        for media_type, content in body.get("content", {}).items():
            if "example" in content or "examples" in content:
                continue
            if media_type == "text/event-stream":
                content["example"] = 'id: queued\nevent: queued\ndata: {"status":"queued"}\n\n'
            elif "schema" in content:
                content["example"] = copy.deepcopy(example_of(content["schema"], schemas))


def _parameter(operation: Operation, name: str, text: str, example: str) -> None:
    parameters = operation.setdefault("parameters", [])
    if not any(parameter["name"].lower() == name.lower() for parameter in parameters):
        parameters.append(header_parameter(name, text, example))


def _header(text: str, kind: str = "string") -> dict[str, Any]:
    return {"description": text, "schema": {"type": kind}}


router = APIRouter(include_in_schema=False)

_DESCRIPTION = (
    "Submit documents, follow the job that ingests them, and query them. "
    "The API key decides the tenant. Every error is `application/problem+json` with a stable `code`."
)


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of the app, built once."""
    if app.openapi_schema is None:
        document = get_openapi(
            title="Chordwise", version=installed_version(), description=_DESCRIPTION, routes=app.routes
        )
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        adapters: list[tuple[type, JsonSchemaMode, TypeAdapter[Any]]] = [
            (shape, mode, TypeAdapter(shape)) for shape, mode in DESCRIBED.items()
        ]
        _, described = TypeAdapter.json_schemas(adapters, ref_template="#/components/schemas/{model}")
        schemas.update(described["$defs"])
        flatten_forms(document)
        complete(document)
        app.openapi_schema = document
    return app.openapi_schema


@router.get("/openapi.json")
async def openapi_json(request: Request) -> Response:
    """Return the OpenAPI document as JSON."""
    return json_response(describe(request.app))


FORM = "multipart/form-data"


def flatten_forms(document: dict[str, Any]) -> None:
    """Replace each ``allOf`` of a form by one schema."""
    schemas = document["components"]["schemas"]
    for operations in document["paths"].values():
        for operation in operations.values():
            content = operation.get("requestBody", {}).get("content", {})
            parts = content.get(FORM, {}).get("schema", {}).get("allOf")
            if parts:
                content[FORM]["schema"] = _joined([_resolved(part, schemas) for part in parts])


def _resolved(part: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    reference = part.get("$ref")
    return part if reference is None else dict(schemas[reference.rpartition("/")[2]])


def _joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required: list[str] = []
    for part in parts:
        properties |= part.get("properties", {})
        required += part.get("required", [])
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
