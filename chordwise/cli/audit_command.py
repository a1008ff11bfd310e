"""``chordwise audit``: who searched and who wrote."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from chordwise.cli import screen
from chordwise.errors import InvalidInput

_FORMATS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]


def audit(
    action: Annotated[str | None, typer.Option("--action", help="Only this, such as search or ingest.")] = None,
    since: Annotated[datetime | None, typer.Option("--since", formats=_FORMATS, help="From then on, UTC.")] = None,
    until: Annotated[datetime | None, typer.Option("--until", formats=_FORMATS, help="Before then, UTC.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many rows to show.")] = 50,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", dir_okay=False, help="Write all of them to a file, as JSON lines.")
    ] = None,
    as_json: screen.Json = False,
) -> None:
    """Show who searched and who wrote, the newest first. Takes a key with the scope admin."""
    begins, ends = (None if each is None else each.replace(tzinfo=UTC) for each in (since, until))
    with screen.connect() as client:
        most = None if output else limit
        rows = client.audit(action=action, since=begins, until=ends, limit=most)
    if output is not None:
        lines = (json.dumps(dict(row.raw), ensure_ascii=False) for row in rows)
        try:
            output.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        except OSError as error:
            raise InvalidInput(f"{output} cannot be written: {error.strerror}") from error
        screen.say(f"{screen.plural(len(rows), 'row')} in {output}")
    elif as_json:
        screen.print_json({"data": [dict(row.raw) for row in rows]})
    elif not rows:
        screen.say("Nothing was noted.")
    else:
        table = screen.table("at", "action", "key", "namespaces", "count", "status", numbers=("count",))
        for row in rows:
            who = row.actor.key_name or "the installation"
            cells = (screen.moment(row.at), row.action, who, ", ".join(row.namespaces), str(row.count), row.status)
            table.add_row(*(Text(screen.clean(cell)) for cell in cells))
        screen.stdout().print(table)
