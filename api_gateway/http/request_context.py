"""Surround every request: its id, its log line, its metrics, and the fallback for errors. Plain ASGI."""

import random
import time
import uuid
from urllib.parse import unquote_to_bytes

import structlog
from opentelemetry.trace import Span, SpanKind
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api_gateway.http.metrics import LATENCY, REQUESTS
from api_gateway.http.problems import Problem, internal
from pipeline.telemetry import tracing
from pipeline.telemetry.tracing import TRACEPARENT, TRACESTATE

log = structlog.get_logger("api_gateway")

STANDARD_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
MOST_PARAMETERS = 100  # of one query string
_PARAMETERS = {"name": "parameters", "limit": MOST_PARAMETERS}
_CLIENT_WENT = 499  # nginx's status for a client that disconnected; logged only, never sent
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

# Stands for an encoded slash while routes are matched. No id can contain it.
SLASH = "\0"


class RequestContext:
    """Give each request an id that reaches all its log lines, tasks and answers, and log one line at its end."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request under its request id."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = request_id_of(scope)
        scope.setdefault("state", {}).update(request_id=request_id, received_at=time.time())
        keep_encoded_slashes(scope)
        status = 0
        started = time.perf_counter()

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                present = {name for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    (b"x-request-id", request_id.encode()),
                    *((name.encode(), value.encode("latin-1")) for name, value in tracing.outgoing().items()),
                    *(header for header in STANDARD_HEADERS if header[0] not in present),
                ]
            await send(message)

        with (
            structlog.contextvars.bound_contextvars(request_id=request_id, tenant_id=None),
            tracing.entered(
                "request", _text_headers(scope), kind=SpanKind.SERVER, **{"chordwise.request_id": request_id}
            ) as span,
        ):
            try:
                refusal = _refusal(scope)
                if refusal is not None:
                    await refusal.response(scope)(scope, receive, send_with_headers)
                    return
                await self._app(scope, receive, send_with_headers)
            except ClientDisconnect:
                status = status or _CLIENT_WENT
            except Exception:  # the outermost handler: a bug becomes a logged traceback and the problem internal_error
                log.exception("request_failed")
                if not status:
                    await internal().response(scope)(scope, receive, send_with_headers)
            finally:
                status = status or _CLIENT_WENT
                route = observe(scope, status, time.perf_counter() - started)
                _mark(span, scope, route, status)


def _refusal(scope: Scope) -> Problem | None:
    """Return the Problem for a head that no route should interpret, or None."""
    if sum(name == b"authorization" for name, _ in scope["headers"]) > 1:
        detail = "The request has more than one Authorization header."
        return Problem(400, "duplicate_authorization", detail)
    if scope["query_string"].count(b"&") >= MOST_PARAMETERS:
        detail = f"The query string has more than {MOST_PARAMETERS} parameters."
        return Problem(400, "too_many_parameters", detail, extensions={"limit": _PARAMETERS})
    return None


def observe(scope: Scope, status: int, seconds: float, **fields: str | None) -> str:
    """Count a request, and log its line with further ``fields``; return its route."""
    route = getattr(scope.get("route"), "path", None) or "unknown"
    method = scope["method"] if scope["method"] in _METHODS else "other"
    REQUESTS.labels(method, route, status).inc()
    LATENCY.labels(method, route, status).observe(seconds)
    log.info("request", method=method, route=route, status=status, latency_ms=round(seconds * 1000, 2), **fields)
    return route


def _mark(span: Span, scope: Scope, route: str, status: int) -> None:
    span.set_attribute("http.request.method", scope["method"] if scope["method"] in _METHODS else "other")
    span.set_attribute("http.route", route)
    span.set_attribute("http.response.status_code", status)
    if status >= 500:
        tracing.fail(span, str(status))


def _text_headers(scope: Scope) -> dict[str, str]:
    """Return the caller's trace headers. A repeated header is ignored, because it is ambiguous."""
    names = (TRACEPARENT.encode(), TRACESTATE.encode())
    headers = [
        (bytes(name).decode(), bytes(value).decode("latin-1")) for name, value in scope["headers"] if name in names
    ]
    is_repeated = sum(name == TRACEPARENT for name, _ in headers) > 1
    return {} if is_repeated else dict(headers)


def request_id_of(scope: Scope) -> str:
    """Return the caller's X-Request-ID if it is 1 to 128 visible ASCII characters, else a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and 1 <= len(value) <= 128 and all(0x21 <= byte <= 0x7E for byte in value):
            return bytes(value).decode("ascii")
    return str(uuid.UUID(int=random.getrandbits(128), version=4))  # no call to the system


def keep_encoded_slashes(scope: Scope) -> None:
    """Replace ``%2F`` inside a path segment by a stand-in: ids may contain slashes, and servers decode before routing."""
    raw: bytes = (scope.get("raw_path") or b"").partition(b"?")[0]
    if b"%2f" in raw.lower() and b"%00" not in raw:
        encoded = raw.replace(b"%2F", b"%00").replace(b"%2f", b"%00")
        scope["path"] = unquote_to_bytes(encoded).decode("utf-8", "replace")
