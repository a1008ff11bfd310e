"""The OpenAPI document: FastAPI's description of the routes, with the shapes of bodies that the routes read themselves."""

from __future__ import annotations

import html
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema
from starlette.responses import HTMLResponse, Response

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


@router.get("/docs")
async def docs(request: Request) -> Response:
    """Return a page that lists every operation. It loads no scripts and no external resources."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
    return HTMLResponse(docs_page(describe(request.app)), headers={"Content-Security-Policy": policy})


def docs_page(document: dict[str, Any]) -> str:
    """Render the OpenAPI document as one HTML page."""
    sections = [
        _section(method.upper(), path, operation)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]
    title = html.escape(f"{document['info']['title']} {document['info']['version']}")
    return _PAGE.format(title=title, description=_text(document["info"]["description"]), sections="\n".join(sections))


def _section(method: str, path: str, operation: dict[str, Any]) -> str:
    parameters = "".join(
        f"<tr><td><code>{html.escape(parameter['name'])}</code></td><td>{parameter['in']}"
        f"{', required' if parameter.get('required') else ''}</td><td>{_text(parameter.get('description', ''))}</td></tr>"
        for parameter in operation.get("parameters", [])
    )
    responses = "".join(
        f"<tr><td>{status}</td><td colspan=2>{_text(response['description'])}</td></tr>"
        for status, response in operation["responses"].items()
    )
    return (
        f"<section><h2><span>{method}</span> <code>{html.escape(path)}</code></h2>"
        f"<p><b>{_text(operation.get('summary', ''))}.</b> {_text(operation.get('description', ''))}</p>"
        f"<table>{parameters}{responses}</table></section>"
    )


def _text(markdown: str) -> str:
    """Escape a text and render its back-ticked parts as code."""
    parts = html.escape(markdown).split("`")
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
section {{ border-top: 1px solid #8884; padding: .5rem 0; }}
h2 {{ font-size: 1.1rem; }} h2 span {{ display: inline-block; min-width: 4.5rem; color: #26a; }}
table {{ border-collapse: collapse; }} td {{ padding: .1rem 1rem .1rem 0; vertical-align: top; }}
</style></head>
<body><h1>{title}</h1><p>{description} The same as JSON: <a href="/openapi.json">/openapi.json</a>.</p>
{sections}
</body></html>
"""


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
