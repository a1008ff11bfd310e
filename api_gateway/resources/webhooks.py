"""Webhooks: endpoints that are called when jobs end, and the deliveries to them."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from fastapi import APIRouter, Response
from pydantic import AfterValidator, Field

from api_gateway.http import cursors
from api_gateway.http.caller import Caller, Writer
from api_gateway.http.fields import Shape, Wire, shown
from api_gateway.http.problems import Problem, invalid
from api_gateway.http.responses import json_response, page_response
from api_gateway.http.route_descriptions import Cursor, Limit, Parameter, Wait, route
from api_gateway.live import poll
from api_gateway.resources.route_parts import CompleteList, Json, Page, deleted, existing, parse_uuid, send_page
from chordwise.contract.webhook import Delivery, DeliveryStateName, Webhook, WebhookWithSecret
from pipeline.administration import edit_webhooks as flow
from pipeline.outbound.post_client import NotAllowed
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.webhooks.endpoint import DEFAULT_EVENTS, DeliveryState
from pipeline.webhooks.endpoint import Webhook as StoredWebhook

EventName = Literal["job.succeeded", "job.partly_failed", "job.failed", "job.cancelled", "job.progress"]


class WebhookRequest(Wire):
    """An endpoint for the ends of jobs. `events`: all four ends of a job by default."""

    example: ClassVar = {"url": "https://example.com/hooks", "events": ["job.failed"]}
    most_bytes: ClassVar = 16 * 1024

    url: Annotated[str, Field(min_length=1, max_length=2048)]
    events: Annotated[list[EventName], Field(min_length=1, max_length=5)] | None = None
    tenant_id: str | None = None


class RotateRequest(Wire):
    """`overlap_seconds`: how long the previous secret signs too; a day by default."""

    example: ClassVar = {"overlap_seconds": 3600}
    most_bytes: ClassVar = 16 * 1024

    overlap_seconds: Annotated[int, Field(ge=0, le=7 * 86_400)] = 86_400
    tenant_id: str | None = None


class WebhookList(CompleteList[Webhook]):
    """Every endpoint of the tenant."""


class DeliveryPage(Page[Delivery]):
    """One page of deliveries, newest first."""


class DeliveryQueued(Shape):
    """A delivery that is about to be sent."""

    delivery_id: str


def webhook(stored: StoredWebhook, *, secret: str | None = None) -> dict[str, Any]:
    """Return an endpoint as it is sent; with its secret only when that was just made."""
    until = stored.previous_until if len(stored.valid_secrets()) > 1 else None
    sent = shown(Webhook, stored, events=list(stored.events), previous_secret_until=until)
    return sent if secret is None else {**sent, "secret": secret}


def delivery(stored: Delivery) -> dict[str, Any]:
    """Return a delivery as it is sent, without its message."""
    sent = shown(Delivery, stored)
    del sent["body"]
    return sent


def _parse_id(webhook_id: str) -> str:
    return parse_uuid(webhook_id, _not_found())


def _not_found() -> Problem:
    return Problem(404, "webhook_not_found", "There is no such webhook.")


# Reading takes the scope write too: the URL of an endpoint often contains a secret.
router = APIRouter(tags=["webhooks"])

Id = Annotated[str, AfterValidator(_parse_id)]


@router.post(
    "/v1/webhooks", **route("Add a webhook", WebhookWithSecret, "The endpoint and its secret.", 409, status=201)
)
async def add(caller: Writer, body: Json[WebhookRequest]) -> Response:
    """Add an endpoint. Calls are signed after the Standard Webhooks specification with the secret in this answer, which
    is shown once. The host must be on the public internet, unless the operator permits its network."""
    events = list(dict.fromkeys(body.events)) if body.events else [event.value for event in DEFAULT_EVENTS]
    try:
        made, secret = await caller.gateway.run_calling(flow.add, caller.tenant_id, body.url, events, caller.use)
    except NotAllowed as error:
        errors = [{"pointer": "/url", "detail": str(error)}]
        raise invalid(errors, code=error.code, detail=error.sentence) from None
    except flow.TooManyWebhooks as error:
        raise Problem(409, "too_many_webhooks", str(error)) from None
    location = {"Location": f"/v1/webhooks/{made.webhook_id}"}
    return json_response(webhook(made, secret=secret), status=201, headers=location)


@router.get("/v1/webhooks", **route("List webhooks", WebhookList, "Every endpoint, without its secret."))
async def list_webhooks(caller: Writer) -> Response:
    """List the endpoints; at most twenty exist."""
    webhooks = await caller.gateway.run(flow.list_webhooks, caller.tenant_id, caller.use)
    return page_response([webhook(stored) for stored in webhooks], None)


@router.get("/v1/webhooks/{webhook_id}", **route("Get a webhook", Webhook, "The endpoint, without its secret.", 404))
async def get_webhook(caller: Writer, webhook_id: Id) -> Response:
    """Return an endpoint, and since when its calls fail."""
    return json_response(webhook(await caller.gateway.run(_stored, caller, webhook_id)))


@router.delete("/v1/webhooks/{webhook_id}", **route("Remove a webhook", None, "Deleted, with its deliveries.", 404))
async def remove(caller: Writer, webhook_id: Id) -> Response:
    """Delete an endpoint. A call in progress may still arrive."""
    return deleted(await caller.gateway.run(flow.remove, caller.tenant_id, webhook_id, caller.use), _not_found())


@router.post(
    "/v1/webhooks/{webhook_id}/rotate",
    **route("Change the secret", WebhookWithSecret, "The endpoint and its new secret.", 404),
)
async def rotate(caller: Writer, webhook_id: Id, body: Json[RotateRequest]) -> Response:
    """Create a new secret. During the overlap calls carry a signature with either secret. An even older secret ends at
    once."""
    overlap_s = float(body.overlap_seconds)
    rotated = await caller.gateway.run(flow.rotate, caller.tenant_id, webhook_id, caller.use, overlap_s=overlap_s)
    stored, secret = existing(rotated, _not_found())
    return json_response(webhook(stored, secret=secret))


@router.post(
    "/v1/webhooks/{webhook_id}/enable",
    **route("Enable a webhook again", Webhook, "The endpoint; it is called again.", 404),
)
async def enable(caller: Writer, webhook_id: Id) -> Response:
    """Enable an endpoint again. Messages from its disabled time are not sent; earlier dead ones can be sent again one
    by one."""
    return await _changed(caller, flow.enable, webhook_id)


@router.post(
    "/v1/webhooks/{webhook_id}/disable",
    **route("Disable a webhook", Webhook, "The endpoint; it is no longer called.", 404),
)
async def disable(caller: Writer, webhook_id: Id) -> Response:
    """Disable an endpoint: nothing is sent to it until it is enabled again, and its pending deliveries are dead. A call in
    progress may still arrive."""
    return await _changed(caller, flow.disable, webhook_id)


@router.post(
    "/v1/webhooks/{webhook_id}/test",
    **route("Send a test message", DeliveryQueued, "A test message is on its way.", 404, status=202),
)
async def test(caller: Writer, webhook_id: Id) -> Response:
    """Send one message of the type `webhook.test`, tried once, also to a disabled endpoint; its delivery reports the
    outcome."""

    def write() -> str:
        _stored(caller, webhook_id)
        return flow.queue_test(caller.tenant_id, webhook_id, caller.use)

    return json_response({"delivery_id": await caller.gateway.run(write)}, status=202)


@router.get(
    "/v1/webhooks/{webhook_id}/deliveries",
    **route("List deliveries", DeliveryPage, "One page of deliveries, newest first.", 404),
)
async def list_deliveries(
    caller: Writer,
    webhook_id: Id,
    state: Annotated[DeliveryStateName | None, Parameter(description="Only those in this state.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """List the deliveries. Delivered ones are kept for a week, dead ones for a month, progress messages for an hour."""
    before = cursors.decode(cursor, "deliveries", datetime, str)
    standing = None if state is None else DeliveryState(state)

    def read() -> list[Delivery]:
        _stored(caller, webhook_id)
        return flow.list_deliveries(
            caller.tenant_id, caller.use, webhook_id, state=standing, before=before, limit=limit + 1
        )

    rows = await caller.gateway.run(read)
    return send_page(rows, limit, "deliveries", lambda stored: (stored.created_at, stored.delivery_id), delivery)


@router.get(
    "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}",
    **route("Get a delivery", Delivery, "The delivery.", 404),
)
async def get_delivery(caller: Writer, webhook_id: Id, delivery_id: str, wait: Wait = 0) -> Response:
    """Return the message, the outcome of the last attempt and the time of the next. With `wait`, answer once no further
    attempt is due."""
    name = f"{caller.tenant_id}:delivery:{webhook_id}:{delivery_id}"

    def read() -> Delivery | None:
        return flow.find_delivery(caller.tenant_id, caller.use, webhook_id, delivery_id)

    def is_settled(stored: Delivery | None) -> bool:
        return stored is None or stored.ended_at is not None

    stored = await poll.until(caller, name, read, is_settled, wait)
    sent = delivery(existing(stored, _no_delivery()))
    body = await caller.gateway.run(flow.body_of, caller.tenant_id, caller.use, webhook_id, delivery_id)
    return json_response({**sent, "body": existing(body, _no_delivery())})


@router.post(
    "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver",
    **route("Resend a delivery", DeliveryQueued, "It is sent again.", 404, 409, status=202),
)
async def redeliver(caller: Writer, webhook_id: Id, delivery_id: str) -> Response:
    """Send the same message under the same id, with new attempts. A delivery that is still pending is a 409."""
    is_queued = await caller.gateway.run(flow.redeliver, caller.tenant_id, webhook_id, delivery_id, caller.use)
    if is_queued is None:
        raise _no_delivery()
    if not is_queued:
        raise Problem(409, "delivery_pending", "The delivery is still pending.")
    return json_response({"delivery_id": delivery_id}, status=202)


async def _changed(caller: Caller, change: Callable[[TenantId, str, Resources], None], webhook_id: str) -> Response:

    def write() -> StoredWebhook:
        _stored(caller, webhook_id)
        change(caller.tenant_id, webhook_id, caller.use)
        return _stored(caller, webhook_id)

    return json_response(webhook(await caller.gateway.run(write)))


def _stored(caller: Caller, webhook_id: str) -> StoredWebhook:
    return existing(flow.find_webhook(caller.tenant_id, caller.use, webhook_id), _not_found())


def _no_delivery() -> Problem:
    return Problem(404, "delivery_not_found", "There is no such delivery.")
