"""``chordwise jobs``: list, watch and steer ingestion jobs."""

import enum
import time
from contextlib import nullcontext
from operator import attrgetter
from typing import Annotated

import typer
from rich.live import Live
from rich.table import Table
from rich.text import Text
from typer import Argument, Option

from chordwise.api.jobs import Job
from chordwise.cli import screen, short_ids
from chordwise.client import Chordwise
from chordwise.errors import ChordwiseError, ConnectionFailed, ProblemError, UnexpectedAnswer

_LOOK_EVERY_S = 2.0
_ERRORS_SHOWN = 20
_ALL = ("job", "status", "documents", "failed", "chunks", "took", "created")
_COLUMNS = ((110, _ALL), (80, _ALL[:5]), (0, _ALL[:3]))  # (minimal width of the terminal, columns to show)
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
    job_id: Annotated[
        str | None, Argument(metavar="[ID]", help="One job, 8 digits of its id suffice; without it, the latest.")
    ] = None,
    watch: Annotated[bool, Option("--watch", "-w", help="Follow until every job is final.")] = False,
    cancel: Annotated[bool, Option("--cancel", help="Cancel its unfinished documents.")] = False,
    retry: Annotated[bool, Option("--retry", help="Queue failed and cancelled documents again.")] = False,
    pause: Annotated[bool, Option("--pause", help="Pause it.")] = False,
    resume: Annotated[bool, Option("--resume", help="Resume it.")] = False,
    status: Annotated[
        list[JobStatus] | None, Option("--status", help="List only those in this state; may be repeated.")
    ] = None,
    limit: Annotated[int, Option("--limit", min=1, help="Number to list.")] = 20,
) -> None:
    """Show ingestion jobs, or one of them with its errors; cancel, retry, pause or resume one.

    With an ID and --watch, exits with 1 unless all of the job succeeded.
    """
    steps = {"cancel": cancel, "retry": retry, "pause": pause, "resume": resume}
    chosen = [name for name, given in steps.items() if given]
    if len(chosen) > 1 or (chosen and job_id is None):
        raise typer.BadParameter(f"--{chosen[0]} takes the ID of one job, and only one such option")
    if status and (job_id is not None or watch):
        raise typer.BadParameter("--status chooses jobs to list; leave the ID and --watch out")
    with screen.connect() as client:
        if job_id is None:
            statuses = [state.value for state in status or ()]
            listed = _watch_list(client, limit) if watch else client.jobs(status=statuses, limit=limit)
            if screen.as_json():
                screen.print_json({"data": [job.raw for job in listed]})
            else:
                console = screen.stdout()
                console.print(_table(listed, console.width) if listed else "No jobs.")
            return
        steer = {
            "cancel": client.cancel_job,
            "retry": client.retry_job,
            "pause": client.pause_job,
            "resume": client.resume_job,
        }
        job_id = short_ids.job(client, job_id)
        steered = steer[chosen[0]](job_id) if chosen else None
        job = _watch(client, job_id) if watch else steered or client.job(job_id)
        quiet = screen.as_json() or not job.succeeded
        warned = [] if quiet else client.job_items(job_id, warned=True, limit=screen.MOST_LINES + 1)
    _print(job)
    screen.warn_of_each([f"{item.document_id}: {warning}" for item in warned for warning in item.warnings])
    if watch:
        require_success(job)


def require_success(job: Job) -> None:
    """Print each document that failed on standard error, and raise ChordwiseError, unless all of the job succeeded."""
    if job.status != "succeeded":
        shown = job.errors[: screen.MOST_LINES]
        screen.warn_of_each(screen.failure_lines(shown))
        if job.failed > len(shown):
            screen.warn(f"and {job.failed - len(shown)} more (GET /v1/jobs/{job.job_id}/items?status=failed has all)")
        raise ChordwiseError(f"job {job.job_id} {job.status.replace('_', ' ')}")


def _watch(client: Chordwise, job_id: str) -> Job:
    with screen.Ticker() as ticker:

        def show(job: Job) -> None:
            ticker.show_finished("documents finished", job)

        try:
            for event in client.events(job_id):
                show(event.job)
            return client.job(job_id)
        except (ProblemError, ConnectionFailed, UnexpectedAnswer):
            # An older server, or a proxy that blocks streams: poll instead.
            return client.wait(job_id, on_progress=show)


def _watch_list(client: Chordwise, limit: int) -> list[Job]:
    """Redraw the list on a terminal until every job in it is final; elsewhere only wait."""
    console = screen.stderr()
    redraws = console.is_terminal and not console.is_dumb_terminal and not screen.as_json()
    with Live(console=console, transient=True) if redraws else nullcontext() as live:
        while True:
            listed = client.jobs(limit=limit)
            if all(job.done for job in listed):
                return listed
            if live:
                live.update(_table(listed, console.width))
            time.sleep(_LOOK_EVERY_S)


def _table(listed: list[Job], width: int) -> Table:
    """Return the list, with as many columns as fit into ``width``."""
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
            "created": screen.moment(job.created_at, seconds=True),
        }
        table.add_row(*(cells[name] for name in shown))
    return table


def _print(job: Job) -> None:
    facts: dict[str, object] = {
        "job": job.job_id,
        "status": _status(job),
        "documents": f"{job.total}: {job.succeeded} succeeded, {job.failed} failed, {job.cancelled} cancelled",
        "of which": ", ".join(f"{count} {outcome}" for outcome, count in job.outcomes.items()),
        "chunks": str(job.chunks) + (f", {job.reused} not embedded again" if job.reused else ""),
        "waiting": (job.waiting_reason or "").replace("_", " "),
        "stages": ", ".join(f"{name} {value}" for name, value in job.stages.items()),
        "created": screen.moment(job.created_at, seconds=True),
        "took": _took(job) or "not finished",
    }
    optional = ("of which", "waiting", "stages")
    facts = {name: value for name, value in facts.items() if value or name not in optional}
    screen.print_facts(job, facts)
    if job.errors and not screen.as_json():
        screen.say("")
        errors = job.errors[:_ERRORS_SHOWN]
        screen.print_table(("document", "code", "reason"), map(attrgetter("document_id", "code", "detail"), errors))
        if len(job.errors) > _ERRORS_SHOWN:
            screen.say(f"and {len(job.errors) - _ERRORS_SHOWN} more")


def _status(job: Job) -> Text:
    return Text(screen.clean(job.status), style=_COLOURS.get(job.status, ""))


def _took(job: Job) -> str:
    if not job.created_at or not job.finished_at:
        return ""
    return f"{(job.finished_at - job.created_at).total_seconds():.1f} s"
