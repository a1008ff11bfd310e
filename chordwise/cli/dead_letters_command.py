"""``chordwise dead-letters``: documents that failed for good; replay or drop them."""

from operator import attrgetter
from typing import Annotated

import typer
from typer import Argument, Option

from chordwise.api.dead_letters import DeadLetter
from chordwise.cli import screen, short_ids


def dead_letters(
    letter_id: Annotated[
        str | None, Argument(metavar="[ID]", help="One dead letter, 8 digits of its id suffice; without it, a list.")
    ] = None,
    replay: Annotated[
        bool,
        Option(
            "--replay", help="Queue it again; without an ID, all that fit the filters and another attempt can help."
        ),
    ] = False,
    drop: Annotated[bool, Option("--drop", help="Give the document up and delete its bytes.")] = False,
    everything: Annotated[bool, Option("--all", help="With --replay and no ID: all of them.")] = False,
    job: Annotated[str | None, Option("--job", help="Only those of this job.")] = None,
    namespace: Annotated[str | None, Option("--namespace", "-n", help="Only those in this namespace.")] = None,
    code: Annotated[str | None, Option("--code", help="Only those with this error code.")] = None,
    reason: Annotated[str | None, Option("--reason", help="rejected, gave_up or bug.")] = None,
    limit: Annotated[int, Option("--limit", min=1, help="Number to list.")] = 20,
) -> None:
    """Show documents that failed for good, try them again, or give them up."""
    chosen = {"job_id": job, "namespace": namespace, "code": code, "reason": reason}
    filtered = any(chosen.values())
    if replay and drop:
        raise typer.BadParameter("--replay and --drop exclude each other")
    if letter_id is not None and (everything or filtered):
        raise typer.BadParameter("an ID excludes --all and the filters")
    if drop and letter_id is None:
        raise typer.BadParameter("--drop needs the ID of a dead letter")
    if everything and not replay:
        raise typer.BadParameter("--all needs --replay")
    if replay and letter_id is None and everything == filtered:
        raise typer.BadParameter("--replay needs an ID, a filter, or --all")
    with screen.connect() as client:
        if letter_id is not None:
            letter_id = short_ids.dead_letter(client, letter_id)
        if job is not None:
            chosen["job_id"] = short_ids.job(client, job)
        if replay:
            if letter_id is not None:
                replayed = client.replay_dead_letter(letter_id)
            else:
                replayed = client.replay_dead_letters(everything=everything, **chosen)
            left = [] if letter_id is not None else client.dead_letters(limit=None, **chosen)
            stays = [letter for letter in left if not letter.retryable]
            sentence = f"{screen.plural(replayed, 'document')} queued again"
            if stays:
                sentence += f"; {len(stays)} left, because another attempt fails again: upload corrected documents"
            screen.report({"replayed": replayed, "not_retryable": len(stays)}, sentence)
        elif letter_id is None:
            screen.print_list(
                client.dead_letters(limit=limit, **chosen),
                ("id", "document", "reason", "code", "attempts", "replay"),
                lambda each: (*_ROW(each), "can help" if each.retryable else "cannot help"),
                empty="No dead letters.",
                numbers=("attempts",),
            )
        elif drop:
            client.drop_dead_letter(letter_id)
            screen.report({"dropped": 1}, "dropped")
        else:
            _print(client.dead_letter(letter_id))


_ROW = attrgetter("id", "document_id", "reason", "code", "attempts")


def _print(letter: DeadLetter) -> None:
    payload = letter.payload
    screen.print_facts(
        letter,
        {
            "id": letter.id,
            "job": letter.job_id,
            "document": f"{letter.document_id} in {letter.namespace}, generation {letter.generation}",
            "reason": f"{letter.reason}: {letter.code}",
            "detail": letter.detail,
            "advice": letter.advice,
            "stage": f"{letter.stage}, after {screen.plural(letter.attempts, 'attempt')}",
            "payload": f"{payload.bytes} bytes of {payload.media_type}" + ("" if payload.available else ", deleted"),
        },
    )
