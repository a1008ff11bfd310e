"""The OpenAPI document: FastAPI's description of the routes, with the shapes of bodies that the routes read themselves."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema
from starlette.responses import Response

from api_gateway.http.descriptions import DESCRIBED
from api_gateway.http.openapi_details import complete
from api_gateway.http.responses import json_response
from api_gateway.live.readiness import installed_version

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
        _, described = models_json_schema(list(DESCRIBED.items()), ref_template="#/components/schemas/{model}")
        schemas.update(described["$defs"])
        flatten_forms(document)
        complete(document, ttl_s=app.state.gateway.settings.idempotency_ttl_s)
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
