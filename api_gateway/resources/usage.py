"""Usage of models, and quotas."""

from datetime import UTC, date, datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Response
from pydantic import Field

from api_gateway.gateway import Gateway
from api_gateway.http import cursors
from api_gateway.http.caller import JobReader
from api_gateway.http.fields import Shape, shown
from api_gateway.http.problems import invalid
from api_gateway.http.responses import json_response
from api_gateway.http.route_descriptions import Cursor, Limit, Parameter, route
from chordwise.contract.job import Usage, UsageRow
from chordwise.contract.tenant import QuotaUse
from pipeline.administration import manage_tenants
from pipeline.ingestion.accept import quota_use
from pipeline.records import TenantId
from pipeline.tenants.usage import UsageKey


class UsagePage(Shape):
    """The cost of embedding and of the language model in some days, both included. `total` is of all of them, whatever the
    page."""

    start: date = Field(alias="from")
    to: date
    by: Literal["day", "job", "model", "purpose"]
    total: Usage
    data: list[UsageRow]
    next_cursor: str | None


router = APIRouter()

First = Annotated[
    date | None, Parameter(alias="from", description="The first day, UTC. Without it, the first of the month of `to`.")
]
Last = Annotated[date | None, Parameter(description="The last day, UTC. Without it, today.")]
By = Annotated[UsageKey, Parameter(description="The field that rows are grouped by.")]


@router.get(
    "/v1/usage",
    **route("Get the cost of models", UsagePage, "Sums over the days asked for, one row for each key."),
    tags=["usage"],
)
async def usage(
    caller: JobReader, first: First = None, to: Last = None, by: By = "day", limit: Limit = 50, cursor: Cursor = None
) -> Response:
    """Return the tokens as the models' services counted them; with the built-in model, as Chordwise counts them. The
    language model has the purposes `understand`, `rerank` and `answer`; its tokens are those of prompts and replies.
    `saved_tokens` is an estimate for cached texts. Counts follow the work within a second."""
    last = to or datetime.now(UTC).date()
    start = first or last.replace(day=1)
    if start > last:
        errors = [{"pointer": "/from", "in": "query", "detail": "is after to"}]
        raise invalid(errors, detail="The first day is after the last one.")
    position = cursors.decode(cursor, f"usage:{by}", str)
    total, rows = await caller.gateway.run(
        manage_tenants.usage_between,
        caller.tenant_id,
        start,
        last,
        by=by,
        after=position[0] if position else None,
        limit=limit + 1,
        use=caller.use,
    )
    page, following = cursors.page(rows, limit, lambda row: cursors.encode(f"usage:{by}", row.key))
    body = {
        "from": start,
        "to": last,
        "by": by,
        "total": shown(Usage, total),
        "data": page,
        "next_cursor": following,
    }
    return json_response(body)


@router.get(
    "/v1/quotas", **route("Get the quotas", QuotaUse, "Each quota with its limit and its use."), tags=["operation"]
)
async def get_quotas(caller: JobReader) -> Response:
    """Return the quotas. `limit` is null for none. They are counted on request; a request that exceeds a quota is
    refused as a whole."""
    return await send_quotas(caller.gateway, caller.tenant_id)


async def send_quotas(gateway: Gateway, tenant_id: TenantId) -> Response:
    """Return the limit and the use of each quota of a tenant."""
    quotas = await gateway.run(lambda: quota_use(tenant_id, gateway.resources))
    return json_response({name: {"limit": limit or None, "used": used} for name, (limit, used) in quotas.items()})
