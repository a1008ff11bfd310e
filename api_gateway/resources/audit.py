"""The audit of searches and writes, for keys with the scope admin."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated, Any

import orjson
from fastapi import APIRouter
from starlette.responses import Response, StreamingResponse

from api_gateway.http import cursors
from api_gateway.http.caller import Caller, FullAdmin
from api_gateway.http.route_descriptions import PRINTABLE, Cursor, Limit, Parameter, route
from api_gateway.resources.route_parts import Page, Since, Until, send_page, time_span
from chordwise.contract.tenant import AuditEntry
from pipeline.administration.manage_tenants import list_audit as list_rows


class AuditPage(Page[AuditEntry]):
    """One page of the audit, newest first."""


router = APIRouter(tags=["audit"])

Action = Annotated[
    str | None,
    Parameter(max_length=32, pattern=PRINTABLE, description="Only this action, such as `search` or `ingest`."),
]
KeyId = Annotated[
    str | None,
    Parameter(
        pattern="^([0-9a-f]{16})?$",
        description="Only by this key; empty for the installation itself. Reads every row of the span: give `since`.",
    ),
]

_EXPORTED_AT_ONCE = 1000
_LINES = "application/x-ndjson"
_EXPORT = {_LINES: {"schema": {"type": "string"}}}


@router.get("/v1/audit", **route("List the audit", AuditPage, "One page of the audit, newest first."))
async def list_audit(
    caller: FullAdmin,
    action: Action = None,
    key_id: KeyId = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Return the tenant's own rows. A search appears within seconds of its answer, a write with its transaction."""
    tenant_id, chosen = caller.tenant_id, _filter(action, key_id, since, until)
    before = cursors.decode(cursor, "audit", datetime, str)
    rows = await caller.gateway.run(list_rows, tenant_id, caller.use, **chosen, before=before, limit=limit + 1)
    return send_page(rows, limit, "audit", lambda row: (row.at, row.audit_id))


@router.get(
    "/v1/audit/export", **route("Export the audit", None, "One JSON object a line, newest first.", content=_EXPORT)
)
async def export_audit(
    caller: FullAdmin, action: Action = None, key_id: KeyId = None, since: Since = None, until: Until = None
) -> Response:
    """Return all of the same rows as JSON lines. Rows added while it runs are not included."""
    chosen = _filter(action, key_id, since, until)
    tenant_id, use = caller.tenant_id, caller.use
    first = await caller.gateway.run(list_rows, tenant_id, use, **chosen, before=None, limit=_EXPORTED_AT_ONCE)
    headers = {"Content-Disposition": 'attachment; filename="audit.jsonl"'}
    lines = _lines(caller, chosen, first)
    return StreamingResponse(lines, media_type=_LINES, headers=headers)


async def _lines(caller: Caller, chosen: dict[str, Any], first: list[AuditEntry]) -> AsyncIterator[bytes]:
    """Yield page by page, so that neither side holds more than one. If the database fails, the stream and the
    connection end early, so that the client notices."""
    tenant_id, rows = caller.tenant_id, first
    while rows:
        yield b"".join(orjson.dumps(entry, option=orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE) for entry in rows)
        if len(rows) < _EXPORTED_AT_ONCE:
            return
        before = (rows[-1].at, rows[-1].audit_id)
        use = caller.use
        rows = await caller.gateway.run(list_rows, tenant_id, use, **chosen, before=before, limit=_EXPORTED_AT_ONCE)


def _filter(action: str | None, key_id: str | None, since: datetime | None, until: datetime | None) -> dict[str, Any]:
    """Return the filter. Raises Problem(422) for a span that ends before it begins."""
    begins, ends = time_span(since, until)
    return {"action": action, "key_id": key_id, "since": begins, "until": ends}
