"""The console: a web page of static files. It contains no data; it reads everything from /v1 with its user's own key.

The API reference at /docs has the same modules over /openapi.json, with a plain list for browsers without scripts.
"""

import functools
import gzip
import hashlib
import html
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from api_gateway.gateway import gateway_of
from api_gateway.http.openapi import describe
from api_gateway.http.problems import Problem, instance_of
from api_gateway.http.responses import json_response
from api_gateway.resources.ingestion.preview import MOST_PREVIEW_BYTES
from api_gateway.resources.ingestion.uploads import MOST_DOCUMENTS
from pipeline.parsing.formats import SUFFIXES, main_suffixes

router = APIRouter(include_in_schema=False)

FOLDER = Path(__file__).parent

# Our own files only: no inline script or style, no markup from strings, no embedding in frames.
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-cache",  # the browser revalidates each time, and usually gets a 304
}
_FOR_EVER = {**HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}
_OWN_FILE = re.compile(r"""(?:href|src)="(?:console/)?(?=[\w/-]+\.(?:css|js|svg)")""")
_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticFile:
    """A file of the console with its headers."""

    body: bytes
    compressed: bytes
    media_type: str
    etag: str


@functools.cache
def _read() -> tuple[str, Mapping[str, StaticFile]]:
    """Return `version` and `files`. Read once, so no other file on the disk can be requested."""
    bodies = _bodies()
    name = hashlib.sha256(b"\0".join(bodies.values())).hexdigest()[:16]
    bodies["index.html"] = _below(name, bodies["index.html"].decode()).encode()
    return name, {path: _static(path, body) for path, body in bodies.items()}


def files() -> Mapping[str, StaticFile]:
    """Return every file of the console by its path below /console/."""
    return _read()[1]


def version() -> str:
    """Return a name for the present files together. Pages name their files below assets/VERSION/, which a browser keeps
    without asking again; after an update they name others."""
    return _read()[0]


def _below(name: str, page: str) -> str:
    """Let a page name its files below the folder of a version."""
    return _OWN_FILE.sub(lambda found: f"{found[0]}assets/{name}/", page)


def _bodies() -> dict[str, bytes]:
    languages = [path for path in sorted(FOLDER.glob("messages/*")) if path.is_dir()]
    bodies = {f"messages/{folder.name}.json": _merged(folder) for folder in languages}
    for path in sorted(FOLDER.rglob("*")):
        if path.suffix in _MEDIA_TYPES and path.is_file() and path.parent not in languages:
            bodies[path.relative_to(FOLDER).as_posix()] = path.read_bytes()
    return bodies


def _static(name: str, body: bytes) -> StaticFile:
    media_type, etag = _MEDIA_TYPES[Path(name).suffix], f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    return StaticFile(body=body, compressed=gzip.compress(body, mtime=0), media_type=media_type, etag=etag)


def _merged(folder: Path) -> bytes:
    """Return the messages of one language, which stand in one file per part of the console, as one table."""
    groups = {}
    for path in sorted(folder.glob("*.json")):
        groups.update(json.loads(path.read_text(encoding="utf-8")))
    return json.dumps(groups, ensure_ascii=False, separators=(",", ":")).encode()


@router.head("/")
@router.get("/")
@router.get("/console")
async def console() -> Response:
    """Redirect to the page's folder, so that its relative paths work, relative to the address, so that the prefix of a
    proxy stays."""
    return RedirectResponse("console/", status_code=307, headers=HEADERS)


@router.get("/console/config.json")
async def config(request: Request) -> Response:
    """Return the settings that the page needs. None of them is secret."""
    settings = gateway_of(request).settings
    limits = {
        "document_bytes": settings.max_document_bytes,
        "body_bytes": settings.max_body_bytes,
        "documents_per_batch": MOST_DOCUMENTS,
        "preview_bytes": min(MOST_PREVIEW_BYTES, settings.max_document_bytes),
        "suffixes": sorted(SUFFIXES),
        "kinds": main_suffixes(),
    }
    flower_url = settings.flower_link or settings.flower_url or None
    sign_on = None if settings.oidc is None else f"{settings.oidc.url}/console/sign-on"
    facts = {"flower_url": flower_url, "language_model": bool(settings.llm_model), "limits": limits, "sign_on": sign_on}
    return json_response(facts, headers=HEADERS)


@router.head("/console/{path:path}")
@router.get("/console/{path:path}")
async def static_file(request: Request, path: str) -> Response:
    """Return one file; 304 if the browser has it already. A page of an earlier version gets the present file, which it
    does not keep. Raises Problem(404)."""
    named, name = "", path or "index.html"
    if name.startswith("assets/"):
        _, named, name = [*name.split("/", 2), ""][:3]
    file = files().get(name)
    if file is None:
        raise Problem(404, "route_not_found", f"Nothing exists at {instance_of(request.scope)}.")
    kept = _FOR_EVER if named == version() else HEADERS
    headers = {**kept, "ETag": file.etag, "Vary": "Accept-Encoding"}
    if file.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.compressed, media_type=file.media_type, headers={**headers, "Content-Encoding": "gzip"})
    return Response(file.body, media_type=file.media_type, headers=headers)


@router.get("/docs")
async def docs(request: Request) -> Response:
    """Return the reference: modules of the console over /openapi.json; a list of all operations without scripts."""
    return HTMLResponse(
        _below(version(), docs_page(describe(request.app))), headers={**HEADERS, "Cache-Control": "no-store"}
    )


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
