"""``chordwise webhooks``: endpoints that are notified when jobs end."""

import time
from typing import Annotated

import typer
from typer import Argument, Option

from chordwise.api.webhooks import Delivery, Webhook
from chordwise.cli import screen, short_ids
from chordwise.client import Chordwise
from chordwise.errors import ChordwiseError

webhooks = typer.Typer(
    help="Endpoints that are notified when jobs end: list, add, remove, rotate, disable, enable, test, deliveries, redeliver.",
    no_args_is_help=True,
)

Id = Annotated[str, Argument(metavar="ID", help="The webhook's id; 8 digits suffice.")]

_TEST_S = 30.0


@webhooks.command("list")
def list_webhooks() -> None:
    """List every endpoint and whether its calls succeed."""
    with screen.connect() as client:
        hooks = client.webhooks()
    screen.print_list(
        hooks,
        ("id", "url", "events", "state"),
        lambda hook: (hook.webhook_id, hook.url, ", ".join(hook.events), _state(hook)),
        empty="No webhooks.",
    )


@webhooks.command()
def add(
    url: Annotated[str, Argument(help="Address to call, http or https.")],
    event: Annotated[
        list[str] | None, Option("--event", "-e", help="Such as job.failed; repeatable. Default: all.")
    ] = None,
) -> None:
    """Add an endpoint and print the secret that signs its calls; it cannot be shown again."""
    with screen.connect() as client:
        _print_secret(client.add_webhook(url, events=event or None))


@webhooks.command()
def remove(webhook_id: Id) -> None:
    """Delete an endpoint and its deliveries."""
    with screen.connect() as client:
        client.remove_webhook(short_ids.webhook(client, webhook_id))
    _confirm("removed", webhook_id)


@webhooks.command()
def rotate(
    webhook_id: Id,
    overlap: Annotated[
        int | None, Option("--overlap", min=0, help="Seconds for which the old secret still signs. Default: a day.")
    ] = None,
) -> None:
    """Give an endpoint a new secret and print it; for a while calls are signed with both."""
    with screen.connect() as client:
        _print_secret(client.rotate_webhook(short_ids.webhook(client, webhook_id), overlap_seconds=overlap))


@webhooks.command()
def disable(webhook_id: Id) -> None:
    """Let an endpoint not be called until it is enabled again."""
    with screen.connect() as client:
        client.disable_webhook(short_ids.webhook(client, webhook_id))
    _confirm("disabled", webhook_id)


@webhooks.command()
def enable(webhook_id: Id) -> None:
    """Enable an endpoint that was disabled, by request or after failures."""
    with screen.connect() as client:
        client.enable_webhook(short_ids.webhook(client, webhook_id))
    _confirm("enabled", webhook_id)


@webhooks.command("test")
def send_test(webhook_id: Id) -> None:
    """Send a test message and print the outcome; exits with 1 if it did not arrive."""
    with screen.connect() as client:
        webhook_id = short_ids.webhook(client, webhook_id)
        delivery = _await_delivery(client, webhook_id, client.test_webhook(webhook_id))
    if screen.as_json():
        screen.print_json(delivery.raw)
    if delivery.state != "delivered":
        raise ChordwiseError(f"the test message did not arrive: {delivery.last_error or delivery.state}")
    if not screen.as_json():
        screen.say(f"delivered: the endpoint answered {delivery.last_status}")


@webhooks.command()
def deliveries(
    webhook_id: Id,
    state: Annotated[str | None, Option("--state", help="pending, delivered or dead.")] = None,
    limit: Annotated[int, Option("--limit", min=1, max=200, help="Number to list.")] = 20,
) -> None:
    """List the latest messages to an endpoint with their outcomes."""
    with screen.connect() as client:
        rows = client.webhook_deliveries(short_ids.webhook(client, webhook_id), state=state, limit=limit)
    screen.print_list(
        rows,
        ("id", "event", "job", "state", "attempts", "last"),
        lambda row: (
            *(row.delivery_id, row.event, row.job_id, row.state, row.attempts),
            row.last_error or row.last_status or "",
        ),
        numbers=("attempts",),
    )


@webhooks.command()
def redeliver(
    webhook_id: Id, delivery_id: Annotated[str, Argument(metavar="DELIVERY", help="The message's ID, from deliveries.")]
) -> None:
    """Send a message again under its old id."""
    with screen.connect() as client:
        webhook_id = short_ids.webhook(client, webhook_id)
        delivery_id = short_ids.delivery(client, delivery_id, webhook_id)
        client.redeliver(webhook_id, delivery_id)
    _confirm("queued again", webhook_id, delivery_id=delivery_id)


def _confirm(outcome: str, webhook_id: str, **ids: str) -> None:
    screen.report({"done": outcome, "webhook_id": webhook_id, **ids}, outcome)


def _await_delivery(client: Chordwise, webhook_id: str, delivery_id: str) -> Delivery:
    deadline = time.monotonic() + _TEST_S
    while True:
        delivery = client.webhook_delivery(webhook_id, delivery_id)
        if delivery.state != "pending" or time.monotonic() > deadline:
            return delivery
        time.sleep(0.25)


def _print_secret(hook: Webhook) -> None:
    screen.print_fields(hook, {"id": hook.webhook_id, "secret": hook.secret})


def _state(hook: Webhook) -> str:
    if hook.disabled_at:
        return f"disabled: {hook.disabled_reason}"
    if hook.failing_since:
        return f"failing since {screen.moment(hook.failing_since)}"
    return "ok" if hook.delivered_at else "not called yet"
