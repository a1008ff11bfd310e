"""``chordwise dead-letters``: what failed for good, and what to do about it."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from chordwise.api.dead_letters import DeadLetter
from chordwise.cli import screen


def dead_letters(
    letter_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="One dead letter; without it, a list.")
    ] = None,
    replay: Annotated[bool, typer.Option("--replay", help="Try it again; without an ID, those chosen below.")] = False,
    drop: Annotated[bool, typer.Option("--drop", help="Give it up and delete its bytes.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="With --replay and no ID: all of them.")] = False,
    job: Annotated[str | None, typer.Option("--job", help="Only those of this job.")] = None,
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Only those in it.")] = None,
    code: Annotated[str | None, typer.Option("--code", help="Only those with this error code.")] = None,
    reason: Annotated[str | None, typer.Option("--reason", help="rejected, gave_up or bug.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many to list.")] = 20,
    as_json: screen.Json = False,
) -> None:
    """Show documents that failed for good, try them again, or give them up."""
    chosen = {"job_id": job, "namespace": namespace, "code": code, "reason": reason}
    filtered = any(chosen.values())
    if replay and drop:
        raise typer.BadParameter("--replay and --drop exclude each other")
    if letter_id is not None and (everything or filtered):
        raise typer.BadParameter("an ID names one dead letter; leave --all and the filters out")
    if drop and letter_id is None:
        raise typer.BadParameter("--drop needs the ID of a dead letter")
    if everything and not replay:
        raise typer.BadParameter("--all goes with --replay")
    if replay and letter_id is None and everything == filtered:
        raise typer.BadParameter("--replay needs an ID, a filter, or --all")
    with screen.connect() as client:
        if replay:
            if letter_id is not None:
                done = client.replay_dead_letter(letter_id)
            else:
                done = client.replay_dead_letters(everything=everything, **chosen)
            _told({"replayed": done}, f"{screen.plural(done, 'document')} queued again", as_json=as_json)
        elif drop and letter_id is not None:
            client.drop_dead_letter(letter_id)
            _told({"dropped": 1}, "dropped", as_json=as_json)
        elif letter_id is not None:
            letter = client.dead_letter(letter_id)
            if as_json:
                screen.print_json(dict(letter.raw))
            else:
                _describe(letter)
        else:
            listed = client.dead_letters(limit=limit, **chosen)
            if as_json:
                screen.print_json({"data": [dict(letter.raw) for letter in listed]})
            else:
                _list(listed)


def _told(value: object, sentence: str, *, as_json: bool) -> None:
    if as_json:
        screen.print_json(value)
    else:
        screen.say(sentence)


def _list(listed: list[DeadLetter]) -> None:
    if not listed:
        screen.say("No dead letters.")
        return
    table = screen.table("id", "document", "reason", "code", "attempts", numbers=("attempts",))
    for letter in listed:
        cells = (letter.id, letter.document_id, letter.reason, letter.code, str(letter.attempts))
        table.add_row(*(Text(screen.clean(cell)) for cell in cells))
    screen.stdout().print(table)


def _describe(letter: DeadLetter) -> None:
    facts = screen.table("", "")
    facts.show_header = False
    payload = letter.payload
    told = {
        "id": letter.id,
        "job": letter.job_id,
        "document": f"{letter.document_id} in {letter.namespace}, generation {letter.generation}",
        "reason": f"{letter.reason}: {letter.code}",
        "detail": letter.detail or "",
        "stage": f"{letter.stage}, after {screen.plural(letter.attempts, 'attempt')}",
        "payload": f"{payload.bytes} bytes of {payload.media_type}" + ("" if payload.available else ", deleted"),
    }
    for name, value in told.items():
        facts.add_row(name, Text(screen.clean(value)))
    screen.stdout().print(facts)
