"""``chordwise tenants``, for an operator's key, and ``chordwise usage``: who uses the installation, and what it costs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer
from rich.text import Text

from chordwise.api.tenants import Tenant, TenantQuotas, UsageCounts
from chordwise.cli import screen
from chordwise.errors import ChordwiseError

_KEYS = ("day", "job", "model", "purpose")
_COLUMNS = ("tokens", "requests", "texts", "cached", "saved tokens", "cost")
_DAY = typer.Option("--from", formats=["%Y-%m-%d"], help="The first day, UTC. Default: the first of the month.")


def usage(
    start: Annotated[datetime | None, _DAY] = None,
    end: Annotated[
        datetime | None, typer.Option("--to", formats=["%Y-%m-%d"], help="The last day, UTC. Default: today.")
    ] = None,
    by: Annotated[str, typer.Option("--by", help="day, job, model or purpose.")] = "day",
    as_json: screen.Json = False,
) -> None:
    """Show the tokens, requests and cost of embedding, and what the cache has saved."""
    if by not in _KEYS:
        raise typer.BadParameter(f"--by takes one of {', '.join(_KEYS)}")
    with screen.connect() as client:
        found = client.usage(start=start and start.date(), end=end and end.date(), by=by)
    if as_json:
        screen.print_json({**found.raw, "data": [dict(row.raw) for row in found.data], "next_cursor": None})
        return
    if not found.data:
        screen.say("Nothing was embedded in these days.")
        return
    table = screen.table(by, *_COLUMNS, numbers=_COLUMNS)
    for row in found.data:
        table.add_row(Text(screen.clean(row.key) or "none"), *_cells(row))
    if len(found.data) > 1:
        table.add_row(Text("all", style="bold"), *_cells(found.total))
    screen.stdout().print(table)


def _cells(counts: UsageCounts) -> list[str]:
    numbers = (counts.tokens, counts.requests, counts.texts, counts.cached, counts.saved_tokens)
    return [*(f"{number}" for number in numbers), f"{counts.cost:.6f}".rstrip("0").rstrip(".")]


QUOTAS = ("documents", "chunks", "queued", "tokens", "requests_per_minute")

tenants = typer.Typer(
    help="Tenants of the installation: list, create, show, quotas, disable, enable, erase. Reads CHORDWISE_ADMIN_KEY,"
    " or else CHORDWISE_API_KEY of a key with the scope operator.",
    no_args_is_help=True,
)

Id = Annotated[str, typer.Argument(metavar="TENANT", help="The tenant's id, as it stands in its keys.")]


@tenants.command("list")
def list_tenants(as_json: screen.Json = False) -> None:
    """Show every tenant."""
    with screen.connect_as_operator() as client:
        listed = client.tenants()
    if as_json:
        screen.print_json({"data": [dict(one.raw) for one in listed]})
    elif not listed:
        screen.say("No tenants.")
    else:
        table = screen.table("id", "name", "since", "state")
        for one in listed:
            cells = (one.tenant_id, one.name, screen.moment(one.created_at), _state(one))
            table.add_row(*(Text(screen.clean(cell)) for cell in cells))
        screen.stdout().print(table)


@tenants.command()
def create(
    tenant_id: Id,
    name: Annotated[str | None, typer.Option("--name", help="What people call it. Default: its id.")] = None,
    key: Annotated[bool, typer.Option("--key/--no-key", help="Make a first key too, with every scope.")] = True,
    as_json: screen.Json = False,
) -> None:
    """Make a tenant, and print a first key for whoever administers it: it is shown this once."""
    with screen.connect_as_operator() as client:
        made = client.create_tenant(tenant_id, name=name)
        first = client.create_key("first", scopes=("read", "write", "admin"), tenant_id=tenant_id) if key else None
    if as_json:
        screen.print_json({**made.raw, "key": None if first is None else dict(first.raw)})
        return
    screen.say(f"tenant  {screen.clean(made.tenant_id)}")
    if first is not None:
        screen.say(f"key     {screen.clean(first.api_key or '')}")


@tenants.command()
def show(tenant_id: Id, as_json: screen.Json = False) -> None:
    """Show one tenant."""
    with screen.connect_as_operator() as client:
        _tell(client.tenant(tenant_id), as_json=as_json)


@tenants.command()
def quotas(
    tenant_id: Id,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=N", help="A quota of its own; 0: no limit, empty: the installation's."),
    ] = None,
    as_json: screen.Json = False,
) -> None:
    """Show a tenant's own quotas, or change some: documents, chunks, queued, tokens, requests_per_minute."""
    with screen.connect_as_operator() as client:
        found = client.tenant_quotas(tenant_id)
        if changes:
            found = client.set_tenant_quotas(tenant_id, **{**_numbers(found), **_changed(changes)})
    if as_json:
        screen.print_json(dict(found.raw))
        return
    for name, value in _numbers(found).items():
        screen.say(f"{name:<20} {'as the installation has it' if value is None else value or 'no limit'}")


def _numbers(found: TenantQuotas) -> dict[str, int | None]:
    return {name: getattr(found, name) for name in QUOTAS}


def _changed(changes: list[str]) -> dict[str, int | None]:
    """Parse quotas given as ``NAME=N``. Raises a usage error for a wrong one."""
    changed: dict[str, int | None] = {}
    for change in changes:
        name, equals, number = change.partition("=")
        if name not in QUOTAS or not equals or not (number == "" or (number.isascii() and number.isdigit())):
            raise typer.BadParameter(f"{change} is not NAME=N, with a NAME out of {', '.join(QUOTAS)}")
        changed[name] = int(number) if number else None
    return changed


@tenants.command()
def disable(tenant_id: Id, as_json: screen.Json = False) -> None:
    """Let none of its keys work, from within three seconds on. Nothing is deleted."""
    with screen.connect_as_operator() as client:
        _tell(client.disable_tenant(tenant_id), as_json=as_json)


@tenants.command()
def enable(tenant_id: Id, as_json: screen.Json = False) -> None:
    """Let its keys work again."""
    with screen.connect_as_operator() as client:
        _tell(client.enable_tenant(tenant_id), as_json=as_json)


@tenants.command()
def erase(
    tenant_id: Id,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: screen.Json = False,
) -> None:
    """Delete everything it has in every store, and print what went; exits with 1 if anything is left."""
    if not yes:
        typer.confirm(f"Erase tenant {screen.clean(tenant_id)} and everything it has, for ever?", abort=True, err=True)
    with screen.connect_as_operator() as client:
        gone = client.erase_tenant(tenant_id)
    if as_json:
        screen.print_json(dict(gone.raw))
    else:
        table = screen.table("store and table", "erased", numbers=("erased",))
        for name, count in sorted(gone.erased.items()):
            table.add_row(Text(screen.clean(name)), str(count))
        screen.stdout().print(table)
    if gone.remaining:
        left = ", ".join(f"{count} in {name}" for name, count in sorted(gone.remaining.items()))
        raise ChordwiseError(f"something is left ({left}); the server looks again within minutes, or run this again")


def _tell(tenant: Tenant, *, as_json: bool) -> None:
    if as_json:
        screen.print_json(dict(tenant.raw))
        return
    screen.say(f"id     {screen.clean(tenant.tenant_id)}")
    screen.say(f"name   {screen.clean(tenant.name)}")
    screen.say(f"since  {screen.moment(tenant.created_at)}")
    screen.say(f"state  {_state(tenant)}")


def _state(tenant: Tenant) -> str:
    return "active" if tenant.disabled_at is None else f"disabled since {screen.moment(tenant.disabled_at)}"
