"""The API reference at /docs: the console's modules over /openapi.json, with a plain list for browsers without scripts."""

from __future__ import annotations

import html
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from api_gateway.console.page import HEADERS
from api_gateway.http.openapi import describe

router = APIRouter(include_in_schema=False)


@router.get("/docs")
async def docs(request: Request) -> Response:
    """Return the reference: modules of the console over /openapi.json; a list of all operations without scripts."""
    return HTMLResponse(docs_page(describe(request.app)), headers={**HEADERS, "Cache-Control": "no-store"})


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
<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">
<title>{title}</title>
<link rel="icon" href="console/favicon.svg" type="image/svg+xml">
<link rel="stylesheet" href="console/css/base.css">
<link rel="stylesheet" href="console/css/layout.css">
<link rel="stylesheet" href="console/css/parts.css">
<link rel="stylesheet" href="console/css/views.css">
<link rel="stylesheet" href="console/css/reference.css">
<script type="module" src="console/js/reference/main.js"></script></head>
<body><div id="app"></div>
<noscript><main class="listed"><h1>{title}</h1><p>{description} The same as JSON: <a href="openapi.json">openapi.json</a>.</p>
{sections}
</main></noscript></body></html>
"""
