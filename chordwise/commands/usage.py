"""``chordwise usage``: what embedding has cost."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer
from rich.text import Text

from chordwise.commands import screen
from chordwise.usage import UsageCounts

_KEYS = ("day", "job", "model", "purpose")
_COLUMNS = ("tokens", "requests", "texts", "cached", "saved tokens", "cost")
_DAY = typer.Option("--from", formats=["%Y-%m-%d"], help="The first day, UTC. Default: the first of the month.")


def usage(
    start: Annotated[datetime | None, _DAY] = None,
    end: Annotated[
        datetime | None, typer.Option("--to", formats=["%Y-%m-%d"], help="The last day, UTC. Default: today.")
    ] = None,
    by: Annotated[str, typer.Option("--by", help="day, job, model or purpose.")] = "day",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
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
