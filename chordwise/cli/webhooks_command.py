"""``chordwise webhooks``: who is told how jobs end."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.text import Text

from chordwise.api.webhooks import Delivery, Webhook
from chordwise.cli import screen
from chordwise.client import Chordwise
from chordwise.errors import ChordwiseError

webhooks = typer.Typer(
    help="Endpoints that are told how jobs end: list, add, remove, rotate, enable, test, deliveries, redeliver.",
    no_args_is_help=True,
)

Id = Annotated[str, typer.Argument(metavar="ID", help="The webhook's ID.")]

_TEST_S = 30.0


@webhooks.command("list")
def list_webhooks(as_json: screen.Json = False) -> None:
    """Show every endpoint and whether calls come through."""
    with screen.connect() as client:
        listed = client.webhooks()
    if as_json:
        screen.print_json({"data": [dict(hook.raw) for hook in listed]})
    elif not listed:
        screen.say("No webhooks.")
    else:
        table = screen.table("id", "url", "events", "state")
        for hook in listed:
            cells = (hook.webhook_id, hook.url, ", ".join(hook.events), _state(hook))
            table.add_row(*(Text(screen.clean(cell)) for cell in cells))
        screen.stdout().print(table)


@webhooks.command()
def add(
    url: Annotated[str, typer.Argument(help="Where to call: http or https.")],
    event: Annotated[list[str] | None, typer.Option("--event", "-e", help="Such as job.failed; repeatable.")] = None,
    as_json: screen.Json = False,
) -> None:
    """Add an endpoint and print the secret its calls are signed with: it is shown this once."""
    with screen.connect() as client:
        _tell_secret(client.add_webhook(url, events=event or None), as_json=as_json)


@webhooks.command()
def remove(webhook_id: Id, as_json: screen.Json = False) -> None:
    """Forget an endpoint and its deliveries."""
    with screen.connect() as client:
        client.remove_webhook(webhook_id)
    _tell("removed", webhook_id, as_json=as_json)


@webhooks.command()
def rotate(
    webhook_id: Id,
    overlap: Annotated[
        int | None, typer.Option("--overlap", min=0, help="Seconds for which the old secret signs too; a day.")
    ] = None,
    as_json: screen.Json = False,
) -> None:
    """Give an endpoint a new secret and print it; for a while calls are signed with both."""
    with screen.connect() as client:
        _tell_secret(client.rotate_webhook(webhook_id, overlap_seconds=overlap), as_json=as_json)


@webhooks.command()
def enable(webhook_id: Id, as_json: screen.Json = False) -> None:
    """Call an endpoint again that was given up."""
    with screen.connect() as client:
        client.enable_webhook(webhook_id)
    _tell("enabled", webhook_id, as_json=as_json)


@webhooks.command("test")
def send_test(webhook_id: Id, as_json: screen.Json = False) -> None:
    """Send a test message and say how it went; exits with 1 if it did not arrive."""
    with screen.connect() as client:
        delivery = _settled(client, webhook_id, client.test_webhook(webhook_id))
    if as_json:
        screen.print_json(dict(delivery.raw))
    if delivery.state != "delivered":
        raise ChordwiseError(f"the test message did not arrive: {delivery.last_error or delivery.state}")
    if not as_json:
        screen.say(f"delivered: the endpoint answered {delivery.last_status}")


@webhooks.command()
def deliveries(
    webhook_id: Id,
    state: Annotated[str | None, typer.Option("--state", help="pending, delivered or dead.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=200, help="How many to list.")] = 20,
    as_json: screen.Json = False,
) -> None:
    """Show the latest messages to an endpoint and what became of them."""
    with screen.connect() as client:
        listed = client.webhook_deliveries(webhook_id, state=state, limit=limit)
    if as_json:
        screen.print_json({"data": [dict(one.raw) for one in listed]})
        return
    table = screen.table("id", "event", "job", "state", "attempts", "last", numbers=("attempts",))
    for one in listed:
        last = one.last_error or (str(one.last_status) if one.last_status else "")
        cells = (one.delivery_id, one.event, one.job_id or "", one.state, str(one.attempts), last)
        table.add_row(*(Text(screen.clean(cell)) for cell in cells))
    screen.stdout().print(table)


@webhooks.command()
def redeliver(
    webhook_id: Id,
    delivery_id: Annotated[str, typer.Argument(metavar="DELIVERY", help="The message's ID, from deliveries.")],
    as_json: screen.Json = False,
) -> None:
    """Send a message again under its old id."""
    with screen.connect() as client:
        client.redeliver(webhook_id, delivery_id)
    _tell("queued again", webhook_id, as_json=as_json, delivery_id=delivery_id)


def _tell(what: str, webhook_id: str, *, as_json: bool, **more: str) -> None:
    """Say that it is done; as JSON with the ids it was done to."""
    if as_json:
        screen.print_json({"done": what, "webhook_id": webhook_id, **more})
    else:
        screen.say(what)


def _settled(client: Chordwise, webhook_id: str, delivery_id: str) -> Delivery:
    ends = time.monotonic() + _TEST_S
    while True:
        delivery = client.webhook_delivery(webhook_id, delivery_id)
        if delivery.state != "pending" or time.monotonic() > ends:
            return delivery
        time.sleep(0.25)


def _tell_secret(hook: Webhook, *, as_json: bool) -> None:
    if as_json:
        screen.print_json(dict(hook.raw))
        return
    screen.say(f"id      {screen.clean(hook.webhook_id)}")
    screen.say(f"secret  {screen.clean(hook.secret or '')}")


def _state(hook: Webhook) -> str:
    if hook.disabled_at:
        return f"disabled: {hook.disabled_reason}"
    if hook.failing_since:
        return f"failing since {hook.failing_since.astimezone():%Y-%m-%d %H:%M}"
    return "ok" if hook.delivered_at else "not called yet"
