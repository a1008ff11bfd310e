"""``chordwise tenants``, for an operator's key, ``chordwise usage`` and ``chordwise audit``."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text
from typer import Argument, Option

from chordwise.api.tenants import Quota, Tenant, TenantQuotas, UsageCounts
from chordwise.cli import screen
from chordwise.errors import ChordwiseError, file_errors

_KEYS = ("day", "job", "model", "purpose")
_COLUMNS = ("tokens", "requests", "texts", "cached", "saved tokens", "cost")
_DAY = Option("--from", formats=["%Y-%m-%d"], help="The first day, UTC. Default: the first of the month.")


def usage(
    start: Annotated[datetime | None, _DAY] = None,
    end: Annotated[
        datetime | None, Option("--to", formats=["%Y-%m-%d"], help="The last day, UTC. Default: today.")
    ] = None,
    by: Annotated[str, Option("--by", help="day, job, model or purpose.")] = "day",
) -> None:
    """Show the tokens, requests and cost of embedding and the language model, and the tokens saved by the cache."""
    screen.require_choice(by, _KEYS, "--by")
    with screen.connect() as client:
        report = client.usage(start=start and start.date(), end=end and end.date(), by=by)
    if screen.as_json():
        screen.print_json({**report.raw, "data": [row.raw for row in report.data], "next_cursor": None})
        return
    if not report.data:
        screen.say("Nothing was embedded in this period.")
        return
    rows = [(screen.clean(row.key) or "none", *_cells(row)) for row in report.data]
    total = [(Text("all", style="bold"), *_cells(report.total))] if len(report.data) > 1 else []
    screen.print_table((by, *_COLUMNS), [*rows, *total], numbers=_COLUMNS)


def _cells(counts: UsageCounts) -> tuple[object, ...]:
    numbers = (counts.tokens, counts.requests, counts.texts, counts.cached, counts.saved_tokens)
    return *numbers, f"{counts.cost:.6f}".rstrip("0").rstrip(".")


def quotas() -> None:
    """Show the limits of your own tenant and how much of each is used; chordwise tenants quotas changes them."""
    with screen.connect() as client:
        stored = client.quotas()
    if screen.as_json():
        screen.print_json(stored.raw)
        return
    rows = ((name, getattr(stored, name)) for name in QUOTAS if hasattr(stored, name))
    screen.print_table(
        ("quota", "used", "limit", "share"),
        (
            (name, quota.used, *(("no limit", "") if quota.limit is None else (quota.limit, _share(quota))))
            for name, quota in rows
        ),
        numbers=("used", "limit", "share"),
    )


def _share(quota: Quota) -> str:
    return f"{quota.used / quota.limit:.0%}" if quota.limit else ""


QUOTAS = ("documents", "chunks", "queued", "tokens", "requests_per_minute")

tenants = typer.Typer(
    help="Tenants of the installation: list, create, show, quotas, disable, enable, erase. Uses CHORDWISE_ADMIN_KEY,"
    " or else CHORDWISE_API_KEY of a key with the scope operator.",
    no_args_is_help=True,
)

Id = Annotated[str, Argument(metavar="TENANT", help="The tenant's id, as in its keys.")]


@tenants.command("list")
def list_tenants() -> None:
    """Show every tenant."""
    with screen.connect_as_operator() as client:
        rows = client.tenants()
    screen.print_list(rows, ("id", "name", "since", "state"), lambda row: _facts(row).values(), empty="No tenants.")


@tenants.command()
def create(
    tenant_id: Id,
    name: Annotated[str | None, Option("--name", help="Display name. Default: its id.")] = None,
    key: Annotated[
        bool, Option("--key/--no-key", help="Also create a first key, with the scopes read, write and admin.")
    ] = True,
) -> None:
    """Create a tenant and print a first key for its administrator; the key cannot be shown again."""
    with screen.connect_as_operator() as client:
        tenant = client.create_tenant(tenant_id, name=name)
        first = (
            client.create_key("first", scopes=("read", "write", "admin"), principals=("*",), tenant_id=tenant_id)
            if key
            else None
        )
    if screen.as_json():
        screen.print_json({**tenant.raw, "key": first and first.raw})
        return
    screen.say(f"tenant  {screen.clean(tenant.tenant_id)}")
    if first is not None:
        screen.say(f"key     {screen.clean(first.api_key or '')}")


@tenants.command()
def show(tenant_id: Id) -> None:
    """Show one tenant."""
    with screen.connect_as_operator() as client:
        tenant = client.tenant(tenant_id)
    screen.print_fields(tenant, _facts(tenant))


@tenants.command("quotas")
def tenant_quotas(
    tenant_id: Id,
    changes: Annotated[
        list[str] | None,
        Option("--set", metavar="NAME=N", help="A quota of its own; 0: no limit, empty: the installation's."),
    ] = None,
) -> None:
    """Show a tenant's own quotas, or change some: documents, chunks, queued, tokens, requests_per_minute."""
    with screen.connect_as_operator() as client:
        stored = client.tenant_quotas(tenant_id)
        if changes:
            stored = client.set_tenant_quotas(tenant_id, **{**_numbers(stored), **_parse(changes)})
    if screen.as_json():
        screen.print_json(stored.raw)
        return
    for name, value in _numbers(stored).items():
        screen.say(f"{name:<20} {'set by the installation' if value is None else value or 'no limit'}")


def _numbers(stored: TenantQuotas) -> dict[str, int | None]:
    return {name: getattr(stored, name) for name in QUOTAS}


def _parse(changes: list[str]) -> dict[str, int | None]:
    quotas: dict[str, int | None] = {}
    for change in changes:
        name, equals, number = change.partition("=")
        if name not in QUOTAS or not equals or not (number == "" or (number.isascii() and number.isdigit())):
            raise typer.BadParameter(f"{change} is not NAME=N, with a NAME out of {', '.join(QUOTAS)}")
        quotas[name] = int(number) if number else None
    return quotas


@tenants.command()
def disable(tenant_id: Id) -> None:
    """Disable all keys of a tenant within three seconds. Nothing is deleted."""
    with screen.connect_as_operator() as client:
        tenant = client.disable_tenant(tenant_id)
    screen.print_fields(tenant, _facts(tenant))


@tenants.command()
def enable(tenant_id: Id) -> None:
    """Let the keys of a tenant work again."""
    with screen.connect_as_operator() as client:
        tenant = client.enable_tenant(tenant_id)
    screen.print_fields(tenant, _facts(tenant))


@tenants.command()
def erase(tenant_id: Id, yes: Annotated[bool, Option("--yes", help="Do not ask for confirmation.")] = False) -> None:
    """Delete everything a tenant has in every store, and print the counts; exits with 1 if anything is left."""
    if not yes:
        typer.confirm(f"Erase tenant {screen.clean(tenant_id)} and everything it has, for ever?", abort=True, err=True)
    with screen.connect_as_operator() as client:
        erasure = client.erase_tenant(tenant_id)
    if screen.as_json():
        screen.print_json(erasure.raw)
    else:
        screen.print_table(("store and table", "erased"), sorted(erasure.erased.items()), numbers=("erased",))
    if erasure.remaining:
        remaining = ", ".join(f"{count} in {name}" for name, count in sorted(erasure.remaining.items()))
        raise ChordwiseError(f"data remains ({remaining}); the server tries again within minutes, or run this again")


def _facts(tenant: Tenant) -> dict[str, str]:
    state = "active" if tenant.disabled_at is None else f"disabled since {screen.moment(tenant.disabled_at)}"
    return {"id": tenant.tenant_id, "name": tenant.name, "since": screen.moment(tenant.created_at), "state": state}


_FORMATS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]


def audit(
    action: Annotated[str | None, Option("--action", help="Only this action, such as search or ingest.")] = None,
    since: Annotated[datetime | None, Option("--since", formats=_FORMATS, help="From then on, UTC.")] = None,
    until: Annotated[datetime | None, Option("--until", formats=_FORMATS, help="Before then, UTC.")] = None,
    limit: Annotated[int, Option("--limit", min=1, help="Number of rows.")] = 50,
    output: Annotated[
        Path | None, Option("--output", "-o", dir_okay=False, help="Write all of them to a file, as JSON lines.")
    ] = None,
) -> None:
    """List searches and writes, newest first. Needs a key with the scope admin."""
    begins, ends = (at and at.replace(tzinfo=UTC) for at in (since, until))
    with screen.connect() as client:
        rows = client.audit(action=action, since=begins, until=ends, limit=None if output else limit)
    if output is not None:
        lines = (json.dumps(row.raw, ensure_ascii=False) for row in rows)
        with file_errors(output, "written"):
            output.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        screen.say(f"{screen.plural(len(rows), 'row')} in {output}")
    else:
        screen.print_list(
            rows,
            ("at", "action", "key", "namespaces", "count", "status"),
            lambda row: (
                *(screen.moment(row.at), row.action, row.actor.key_name or "the installation"),
                *(", ".join(row.namespaces), row.count, row.status),
            ),
            empty="No entries.",
            numbers=("count",),
        )
