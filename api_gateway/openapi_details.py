"""What stands in front of every route, written into the description of every operation: keys, limits, conditions,
problems with their codes, and examples."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final

from api_gateway.openapi_examples import example_of
from api_gateway.problem_codes import codes_of
from api_gateway.problems import MEDIA_TYPE, TITLES
from api_gateway.routes.documenting import meaning_of

Operation = dict[str, Any]

_JSON: Final = "application/json"
_SINGLETONS: Final = ("/v1/dictionary",)
_NAME: Final = {"type": "string"}


def operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Operation]]:
    """Every operation: method in capitals, path, description."""
    for path, found in document["paths"].items():
        for method, operation in found.items():
            if method in ("get", "put", "post", "delete", "patch"):
                yield method.upper(), path, operation


def complete(document: dict[str, Any], *, ttl_s: int) -> None:
    """Add to every operation of version 1 what it has in common with the others. Other dialects describe their own."""
    schemas = document["components"]["schemas"]
    readable = {path for method, path, _ in operations(document) if method == "GET"}
    for method, path, operation in operations(document):
        secured = bool(operation.get("security"))
        if not path.startswith("/v1/") and secured:
            continue
        if secured:
            _limits(operation)
            _problem(operation, 400)
        _problem(operation, 431)
        if secured and method == "POST":
            _idempotency(operation, ttl_s)
        if secured:
            _conditions(method, path, operation, written_where_read=path in readable)
        if "requestBody" in operation:
            _problem(operation, 408)
        _problems(method, path, operation, idempotent=secured and method == "POST")
        _examples(operation, schemas)


def _limits(operation: Operation) -> None:
    _problem(operation, 429)
    for status, response in operation["responses"].items():
        if status.startswith("2"):
            headers = response.setdefault("headers", {})
            headers["RateLimit"] = _header("What is left: requests (`r`) that may follow at once, and seconds (`t`).")
            headers["RateLimit-Policy"] = _header("What holds: so many requests (`q`) in so many seconds (`w`).")


def _idempotency(operation: Operation, ttl_s: int) -> None:
    text = (
        "A name for this very request, 1 to 255 visible ASCII characters, best a UUID. Sent again with the same body, "
        f"the request is answered again and not done again, for {ttl_s // 3600} hours; with another body it is a 422, "
        "and while it is being done a 409. Answers of status 500 and above are not kept."
    )
    _parameter(operation, "Idempotency-Key", text, "5f2b7d1c-0c0e-4a55-9d0f-3a8f3f9f3c11")
    for status in (400, 409, 422):
        _problem(operation, status)
    for status, response in operation["responses"].items():
        if status.startswith("2"):
            told = "`true` if this is the answer to an earlier request with the same key."
            response.setdefault("headers", {})["Idempotency-Replayed"] = _header(told)


def _conditions(method: str, path: str, operation: Operation, *, written_where_read: bool) -> None:
    single = path.endswith("}") or path in _SINGLETONS
    if method == "GET" and _JSON in operation["responses"].get("200", {}).get("content", {}):
        operation["responses"]["200"].setdefault("headers", {})["ETag"] = _header("Names this very state.")
        _parameter(
            operation, "If-None-Match", "Etags that are known; if one is that of the present state: 304.", '"a1"'
        )
        operation["responses"]["304"] = {"description": "Nothing has changed since.", "headers": {"ETag": _header("")}}
    if method in ("PUT", "PATCH", "DELETE") and single and written_where_read:
        _parameter(operation, "If-Match", "Only if what is there has one of these etags; else 412.", '"a1"')
        if method != "DELETE":
            _parameter(operation, "If-None-Match", "`*`: only if there is nothing yet; else 412.", "*")
        for status in (409, 412):
            _problem(operation, status)


def _problem(operation: Operation, status: int) -> None:
    body = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemBody"}}}
    operation["responses"].setdefault(str(status), {"description": meaning_of(status), "content": body})


def _problems(method: str, path: str, operation: Operation, *, idempotent: bool) -> None:
    """Say which codes each problem can have."""
    for status, response in operation["responses"].items():
        content = response.get("content", {}).get(MEDIA_TYPE)
        if content is None:
            continue
        codes = list(codes_of(method, path, int(status), idempotent=idempotent))
        narrowed = {"properties": {"code": {"enum": codes}, "status": {"const": int(status)}}}
        content["schema"] = {"allOf": [{"$ref": "#/components/schemas/ProblemBody"}, narrowed]}
        content["example"] = {
            "type": f"urn:chordwise:problem:{(codes or [''])[0]}",
            "title": TITLES.get(int(status), ""),
            "status": int(status),
            "detail": response["description"],
            "instance": path,
            "code": (codes or [""])[0],
            "request_id": "d1f6a5c2",
        }
        if int(status) in (429, 503):
            response.setdefault("headers", {})["Retry-After"] = _header("Seconds after which to come back.", "integer")


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
    there = operation.setdefault("parameters", [])
    if not any(each["name"].lower() == name.lower() for each in there):
        told = {"name": name, "in": "header", "required": False, "schema": _NAME, "description": text}
        there.append({**told, "example": example})


def _header(text: str, kind: str = "string") -> dict[str, Any]:
    return {"description": text, "schema": {"type": kind}}
