"""What embedding has cost."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Annotated

from fastapi import APIRouter, Request
from fastapi import Query as Parameter
from starlette.responses import Response

from api_gateway.gateway import gateway_of
from api_gateway.http import cursors
from api_gateway.http import responses as wire
from api_gateway.http.auth import Reader
from api_gateway.http.descriptions import Cursor, Limit, answers
from api_gateway.http.problems import Problem
from api_gateway.resources.shapes import UsagePage
from pipeline.database.unit_of_work import unit_of_work
from pipeline.tenants.usage_store import Usage, UsageKey, UsageRow

router = APIRouter(tags=["usage"])

First = Annotated[
    date | None, Parameter(alias="from", description="The first day, UTC. Without it, the first of the month of `to`.")
]
Last = Annotated[date | None, Parameter(description="The last day, UTC. Without it, today.")]
By = Annotated[UsageKey, Parameter(description="What the rows stand for.")]


@router.get(
    "/v1/usage",
    responses=answers(200, UsagePage, "Sums over the days asked for, one row for each key.", 401, 403, 422, 503),
    summary="Look at what embedding has cost",
)
async def usage(
    request: Request,
    principal: Reader,
    first: First = None,
    to: Last = None,
    by: By = "day",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Tokens as the embedding service counted them; with the built-in model, as Chordwise counts them. `saved_tokens`
    is what cached texts would have been, estimated. Counts follow the work by less than a second."""
    gateway = gateway_of(request)
    last = to or datetime.now(UTC).date()
    start = first or last.replace(day=1)
    if start > last:
        places = [{"pointer": "/from", "in": "query", "detail": "is after to"}]
        raise Problem(422, "invalid_request", "The first day is after the last one.", errors=places)
    after = cursors.decode(cursor, f"usage:{by}", str)

    def read() -> tuple[UsageRow, list[UsageRow]]:
        with unit_of_work(gateway.resources.mysql) as work:
            found = Usage(work.connection, principal.tenant_id)
            rows = found.between(start, last, by=by, after=after[0] if after else None, limit=limit + 1)
            return found.total(start, last), rows

    total, rows = await gateway.run(read)
    page, following = cursors.page(rows, limit, lambda row: cursors.encode(f"usage:{by}", row.key))
    body = {
        "from": start,
        "to": last,
        "by": by,
        "total": wire.usage(total),
        "data": [{"key": row.key, **wire.usage(row)} for row in page],
        "next_cursor": following,
    }
    return wire.json_response(body)
