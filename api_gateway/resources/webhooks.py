"""Webhooks: who is told how jobs end, and what became of the telling."""

from __future__ import annotations

import uuid
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi import Query as Parameter
from starlette.responses import Response

from api_gateway.gateway import Gateway, gateway_of
from api_gateway.http import cursors
from api_gateway.http import responses as wire
from api_gateway.http.auth import Writer
from api_gateway.http.descriptions import Cursor, Limit, Wait, answers, json_body
from api_gateway.http.json_bodies import read_shape
from api_gateway.http.problems import Problem, invalid
from api_gateway.live import poll as polling
from api_gateway.resources import webhook_shapes as shapes
from pipeline.administration import edit_webhooks as flow
from pipeline.database.unit_of_work import UnitOfWork, unit_of_work
from pipeline.jobs.outbox_store import Outbox
from pipeline.outbound.post_client import NotAllowed
from pipeline.tenants.audit_store import Audit
from pipeline.tenants.tenant_store import Principal
from pipeline.webhooks.delivery_store import Deliveries, Delivery
from pipeline.webhooks.endpoint_store import Webhook, Webhooks
from pipeline.webhooks.signatures import DEFAULT_EVENTS, DeliveryState

# Reading takes the scope write too: the URL of an endpoint often is a secret.
router = APIRouter(tags=["webhooks"])

_MAX_BODY_BYTES = 16 * 1024
_PROBLEMS = (401, 403, 404, 422, 503)
_BODY_PROBLEMS = (400, 401, 403, 413, 415, 422, 503)


@router.post(
    "/v1/webhooks",
    status_code=201,
    responses=answers(201, shapes.WebhookWithSecret, "The endpoint and its secret.", 409, *_BODY_PROBLEMS),
    openapi_extra=json_body(shapes.WebhookRequest, {"url": "https://example.com/hooks", "events": ["job.failed"]}),
    summary="Add a webhook",
)
async def add(request: Request, principal: Writer) -> Response:
    """Calls are signed after the Standard Webhooks specification with the secret that this answer shows, once. The host
    must be on the public internet, unless the operator permits its network."""
    gateway = gateway_of(request)
    asked = await read_shape(request, principal, shapes.WebhookRequest, limit=_MAX_BODY_BYTES)
    events = list(dict.fromkeys(asked.events)) if asked.events else [event.value for event in DEFAULT_EVENTS]
    try:
        made, secret = await gateway.run_calling(flow.add, principal.tenant_id, asked.url, events, gateway.resources)
    except NotAllowed as error:
        said = str(error)
        raise invalid([{"pointer": "/url", "detail": said}], code=error.code, detail=f"The URL: {said}.") from None
    except flow.TooManyWebhooks as error:
        raise Problem(409, "too_many_webhooks", str(error)) from None
    location = {"Location": f"/v1/webhooks/{made.webhook_id}"}
    return wire.json_response(shapes.webhook(made, secret=secret), status=201, headers=location)


@router.get(
    "/v1/webhooks",
    responses=answers(200, shapes.WebhookList, "Every endpoint, without its secret.", 401, 403, 503),
    summary="List webhooks",
)
async def list_webhooks(request: Request, principal: Writer) -> Response:
    """There are twenty at most."""
    gateway = gateway_of(request)

    return wire.page_response(
        [shapes.webhook(found) for found in await gateway.ask(Webhooks, principal, lambda store: store.all())], None
    )


@router.get(
    "/v1/webhooks/{webhook_id}",
    responses=answers(200, shapes.Webhook, "The endpoint, without its secret.", *_PROBLEMS),
    summary="Look at a webhook",
)
async def look(request: Request, principal: Writer, webhook_id: str) -> Response:
    """Whether it is called, and since when calls fail."""
    gateway = gateway_of(request)
    found = await gateway.run(_found, principal, _known(webhook_id), gateway)
    return wire.json_response(shapes.webhook(found))


@router.delete(
    "/v1/webhooks/{webhook_id}",
    status_code=204,
    responses=answers(204, None, "It is gone, with its deliveries.", *_PROBLEMS),
    summary="Remove a webhook",
)
async def remove(request: Request, principal: Writer, webhook_id: str) -> Response:
    """A call that is under way may still arrive."""
    gateway = gateway_of(request)
    known = _known(webhook_id)

    def forget() -> bool:
        with unit_of_work(gateway.resources.mysql) as work:
            removed = Webhooks(work.connection, principal.tenant_id).remove(known)
            if removed:
                Audit(work.connection, principal.tenant_id).wrote("webhook_remove", ids=[known])
            return removed

    if not await gateway.run(forget):
        raise _not_found()
    return Response(status_code=204)


@router.post(
    "/v1/webhooks/{webhook_id}/rotate",
    responses=answers(200, shapes.WebhookWithSecret, "The endpoint and its new secret.", 404, *_BODY_PROBLEMS),
    openapi_extra=json_body(shapes.RotateRequest, {"overlap_seconds": 3600}),
    summary="Change the secret",
)
async def rotate(request: Request, principal: Writer, webhook_id: str) -> Response:
    """For the time of the overlap calls carry a signature with either secret. A secret from before the last one ends
    at once."""
    gateway = gateway_of(request)
    known = _known(webhook_id)
    asked = await read_shape(request, principal, shapes.RotateRequest, limit=_MAX_BODY_BYTES)
    overlap_s = float(asked.overlap_seconds)
    rotated = await gateway.run(flow.rotate, principal.tenant_id, known, gateway.resources, overlap_s=overlap_s)
    if rotated is None:
        raise _not_found()
    return wire.json_response(shapes.webhook(rotated[0], secret=rotated[1]))


@router.post(
    "/v1/webhooks/{webhook_id}/enable",
    responses=answers(200, shapes.Webhook, "The endpoint; it is called again.", *_PROBLEMS),
    summary="Enable a webhook again",
)
async def enable(request: Request, principal: Writer, webhook_id: str) -> Response:
    """What it missed while it was disabled is not sent; what was dead before can be sent again one by one."""
    gateway = gateway_of(request)
    known = _known(webhook_id)

    def do() -> None:
        _found(principal, known, gateway)
        with unit_of_work(gateway.resources.mysql) as work:
            Webhooks(work.connection, principal.tenant_id).enable(known)
            Audit(work.connection, principal.tenant_id).wrote("webhook_enable", ids=[known])

    await gateway.run(do)
    return wire.json_response(shapes.webhook(await gateway.run(_found, principal, known, gateway)))


@router.post(
    "/v1/webhooks/{webhook_id}/test",
    status_code=202,
    responses=answers(202, shapes.DeliveryQueued, "A test message is on its way.", *_PROBLEMS),
    summary="Send a test message",
)
async def test(request: Request, principal: Writer, webhook_id: str) -> Response:
    """One message of the type `webhook.test`, tried once, also to a disabled endpoint; its delivery says how it went."""
    gateway = gateway_of(request)
    known = _known(webhook_id)

    def write() -> str:
        _found(principal, known, gateway)
        with unit_of_work(gateway.resources.mysql) as work:
            _send_soon(work, gateway)
            return Outbox(work.connection, principal.tenant_id).test(known)

    return wire.json_response({"delivery_id": await gateway.run(write)}, status=202)


@router.get(
    "/v1/webhooks/{webhook_id}/deliveries",
    responses=answers(200, shapes.DeliveryPage, "One page of deliveries, newest first.", *_PROBLEMS),
    summary="List deliveries",
)
async def list_deliveries(
    request: Request,
    principal: Writer,
    webhook_id: str,
    state: Annotated[shapes.Standing | None, Parameter(description="Only those in this state.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Delivered ones are kept for a week, dead ones for a month, news of progress for an hour."""
    gateway = gateway_of(request)
    known = _known(webhook_id)
    before = cursors.before(cursor, "deliveries", is_uuid=False)
    standing = None if state is None else DeliveryState(state)

    def read() -> list[Delivery]:
        _found(principal, known, gateway)
        with unit_of_work(gateway.resources.mysql) as work:
            store = Deliveries(work.connection, principal.tenant_id)
            return store.page(known, standing=standing, before=before, limit=limit + 1)

    found, following = cursors.page(
        await gateway.run(read),
        limit,
        lambda last: cursors.encode("deliveries", last.created_at.isoformat(), last.delivery_id),
    )
    return wire.page_response([shapes.delivery(one) for one in found], following)


@router.get(
    "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}",
    responses=answers(200, shapes.Delivery, "The delivery.", *_PROBLEMS),
    summary="Look at a delivery",
)
async def look_at_delivery(
    request: Request, principal: Writer, webhook_id: str, delivery_id: str, wait: Wait = 0
) -> Response:
    """What the last attempt led to, and when the next one is due. With `wait`, once there is nothing due any more."""
    gateway = gateway_of(request)
    known = _known(webhook_id)

    def read() -> Delivery | None:
        with unit_of_work(gateway.resources.mysql) as work:
            return Deliveries(work.connection, principal.tenant_id).one(known, delivery_id)

    name = f"{principal.tenant_id}:delivery:{known}:{delivery_id}"
    found = await polling.until(request, gateway, name, read, lambda one: one is None or one.ended_at is not None, wait)
    if found is None:
        raise _no_delivery()
    return wire.json_response(shapes.delivery(found))


@router.post(
    "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver",
    status_code=202,
    responses=answers(202, shapes.DeliveryQueued, "It is sent again.", *_PROBLEMS, 409),
    summary="Send a delivery again",
)
async def redeliver(request: Request, principal: Writer, webhook_id: str, delivery_id: str) -> Response:
    """The same message under the same id, with its attempts counted anew. One that is still to be sent is a 409."""
    gateway = gateway_of(request)
    known = _known(webhook_id)

    def again() -> None:
        with unit_of_work(gateway.resources.mysql) as work:
            store = Deliveries(work.connection, principal.tenant_id)
            if store.one(known, delivery_id) is None:
                raise _no_delivery()
            if not store.send_again(known, delivery_id):
                raise Problem(409, "delivery_pending", "The delivery is still to be sent; it needs no help.")
            Audit(work.connection, principal.tenant_id).wrote("webhook_redeliver", ids=[delivery_id])
            _send_soon(work, gateway)

    await gateway.run(again)
    return wire.json_response({"delivery_id": delivery_id}, status=202)


def _send_soon(work: UnitOfWork, gateway: Gateway) -> None:
    filled = gateway.resources.outbox_filled
    if filled is not None:
        work.after_commit(lambda: _call(filled))


def _call(filled: Any) -> None:
    filled()


def _found(principal: Principal, webhook_id: str, gateway: Gateway) -> Webhook:
    with unit_of_work(gateway.resources.mysql) as work:
        found = Webhooks(work.connection, principal.tenant_id).one(webhook_id)
    if found is None:
        raise _not_found()
    return found


def _known(webhook_id: str) -> str:
    try:
        return str(uuid.UUID(webhook_id))
    except ValueError:
        raise _not_found() from None


def _not_found() -> Problem:
    return Problem(404, "webhook_not_found", "There is no such webhook.")


def _no_delivery() -> Problem:
    return Problem(404, "delivery_not_found", "There is no such delivery.")
