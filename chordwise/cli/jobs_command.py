"""``chordwise jobs``: what became of ingestions."""

from __future__ import annotations

import enum
import time
from contextlib import nullcontext
from datetime import datetime
from typing import Annotated

import typer
from rich.live import Live
from rich.table import Table
from rich.text import Text

from chordwise.api.jobs import Job, failures
from chordwise.cli import screen
from chordwise.client import Chordwise
from chordwise.errors import ChordwiseError, ConnectionFailed, ProblemError, UnexpectedAnswer

_LOOK_EVERY_S = 2.0
_ERRORS_SHOWN = 20
_ALL = ("job", "status", "documents", "failed", "chunks", "took", "created")
_COLUMNS = ((110, _ALL), (80, _ALL[:5]), (0, _ALL[:3]))  # from how many columns of terminal on, which to show
_COLOURS = {"succeeded": "green", "running": "cyan", "queued": "cyan", "partly_failed": "yellow", "failed": "red"}


class JobStatus(enum.StrEnum):
    """The states of a job."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    PARTLY_FAILED = "partly_failed"
    FAILED = "failed"
    CANCELLED = "cancelled"


def jobs(
    job_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="One job; without it, the latest.")] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Follow until nothing is running any more.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Call back what is not done.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Try again what failed or was cancelled.")] = False,
    pause: Annotated[bool, typer.Option("--pause", help="Let it rest.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with it.")] = False,
    status: Annotated[
        list[JobStatus] | None, typer.Option("--status", help="List only those in this state; may be repeated.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many to list.")] = 20,
    as_json: screen.Json = False,
) -> None:
    """Show ingestion jobs, or one of them with its errors; cancel, retry, pause or resume one.

    With an ID and --watch, exits with 1 unless every document of the job was ingested.
    """
    steps = {"cancel": cancel, "retry": retry, "pause": pause, "resume": resume}
    asked = [name for name, wanted in steps.items() if wanted]
    if len(asked) > 1 or (asked and job_id is None):
        raise typer.BadParameter(f"--{asked[0]} takes one job's ID, and one such option goes at a time")
    if status and (job_id is not None or watch):
        raise typer.BadParameter("--status chooses jobs to list; leave the ID and --watch out")
    with screen.connect() as client:
        if job_id is None:
            statuses = [each.value for each in status or ()]
            listed = _watched_list(client, limit, quiet=as_json) if watch else client.jobs(status=statuses, limit=limit)
            if as_json:
                screen.print_json({"data": [dict(job.raw) for job in listed]})
            else:
                console = screen.stdout()
                console.print(_table(listed, console.width) if listed else "No jobs.")
            return
        steered = {
            "cancel": client.cancel_job,
            "retry": client.retry_job,
            "pause": client.pause_job,
            "resume": client.resume_job,
        }
        looked = steered[asked[0]](job_id) if asked else None
        job = _watched(client, job_id, quiet=as_json) if watch else looked or client.job(job_id)
    if as_json:
        screen.print_json(dict(job.raw))
    else:
        _describe(job)
    if watch and job.status != "succeeded":
        told = f": {failures(job.errors)}" if job.errors else ""
        raise ChordwiseError(f"job {job.job_id} {job.status.replace('_', ' ')}{told}")


def _watched(client: Chordwise, job_id: str, *, quiet: bool) -> Job:
    with screen.Ticker(quiet=quiet) as ticker:

        def told(job: Job) -> None:
            ticker.tell("documents finished", job.succeeded + job.failed + job.cancelled, job.total)

        try:
            for event in client.events(job_id):
                told(event.job)
            return client.job(job_id)
        except (ProblemError, ConnectionFailed, UnexpectedAnswer):
            # An older server, or something between that lets no stream through: ask again and again instead.
            return client.wait(job_id, on_progress=told)


def _watched_list(client: Chordwise, limit: int, *, quiet: bool) -> list[Job]:
    """Redraw the list on a terminal until every job in it is final; elsewhere just wait for that."""
    console = screen.stderr()
    drawn = console.is_terminal and not console.is_dumb_terminal and not quiet
    with Live(console=console, transient=True) if drawn else nullcontext() as live:
        while True:
            listed = client.jobs(limit=limit)
            if all(job.done for job in listed):
                return listed
            if live:
                live.update(_table(listed, console.width))
            time.sleep(_LOOK_EVERY_S)


def _table(listed: list[Job], width: int) -> Table:
    """The list, with as many columns as ``width`` has room for."""
    shown = next((names for needed, names in _COLUMNS if width >= needed), _COLUMNS[-1][1])
    table = screen.table(*shown, numbers=("documents", "failed", "chunks", "took"))
    for job in listed:
        cells: dict[str, str | Text] = {
            "job": Text(job.job_id),
            "status": _status(job),
            "documents": f"{job.succeeded}/{job.total}",
            "failed": str(job.failed),
            "chunks": str(job.chunks),
            "took": _took(job),
            "created": _time(job.created_at),
        }
        table.add_row(*(cells[name] for name in shown))
    return table


def _describe(job: Job) -> None:
    console = screen.stdout()
    facts = screen.table("", "")
    facts.show_header = False
    facts.add_row("job", Text(job.job_id))
    facts.add_row("status", _status(job))
    counts = f"{job.total}: {job.succeeded} succeeded, {job.failed} failed, {job.cancelled} cancelled"
    facts.add_row("documents", counts)
    if job.outcomes:
        facts.add_row("of which", ", ".join(f"{value} {screen.clean(name)}" for name, value in job.outcomes.items()))
    facts.add_row("chunks", str(job.chunks) + (f", {job.reused} not embedded again" if job.reused else ""))
    if job.waiting_reason:
        facts.add_row("waiting", Text(screen.clean(job.waiting_reason.replace("_", " "))))
    if job.stages:
        facts.add_row("stages", ", ".join(f"{name} {value}" for name, value in job.stages.items()))
    facts.add_row("created", _time(job.created_at))
    facts.add_row("took", _took(job) or "not finished")
    console.print(facts)
    if job.errors:
        console.print()
        table = screen.table("document", "code", "reason")
        for error in job.errors[:_ERRORS_SHOWN]:
            cells = (error.document_id or "", error.code, error.detail)
            table.add_row(*(Text(screen.clean(cell)) for cell in cells))
        console.print(table)
        if len(job.errors) > _ERRORS_SHOWN:
            screen.say(f"and {len(job.errors) - _ERRORS_SHOWN} more")


def _status(job: Job) -> Text:
    return Text(screen.clean(job.status), style=_COLOURS.get(job.status, ""))


def _time(moment: datetime | None) -> str:
    """Local time, to the second."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}" if moment else ""


def _took(job: Job) -> str:
    if not job.created_at or not job.finished_at:
        return ""
    return f"{(job.finished_at - job.created_at).total_seconds():.1f} s"
