"""``chordwise sources``: where documents came from, and stores of files that are followed."""

from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from chordwise.api.sources import SourceInfo
from chordwise.cli import screen, short_ids
from chordwise.client import Chordwise
from chordwise.contract.source import FollowedSource, SourceRun

SourceKind = Literal["text", "bytes", "file", "url", "sheet"]

sources = typer.Typer(
    help="Sources of documents: list, show, delete; and follow a store of files: add, run, pause, confirm, remove.",
    no_args_is_help=True,
)

SourceIdArgument = Annotated[str, Argument(metavar="ID", help="The source's id; 8 digits suffice.")]
NamespaceOption = Annotated[str, Option("--namespace", "-n", help="The namespace it is in.")]


@sources.command("list")
def list_sources(
    namespace: Annotated[str, Option("--namespace", "-n", help="The namespace they are in.")],
    kind: Annotated[SourceKind | None, Option("--kind", help="Only those of this kind.")] = None,
    limit: Annotated[int, Option("--limit", min=1, help="Number to list.")] = 100,
) -> None:
    """List sources that are followed, or have a searchable or pending document."""
    with screen.connect() as client:
        rows = client.sources(namespace=namespace, kind=kind, limit=limit)
    screen.print_list(
        rows,
        ("source", "kind", "uri", "documents", "chunks", "followed"),
        lambda row: (*attrgetter("source_id", "kind", "uri", "documents", "chunks")(row), _state(row.followed)),
        empty="No sources.",
        numbers=("documents", "chunks"),
    )


@sources.command("show")
def show_source(source_id: SourceIdArgument, namespace: NamespaceOption) -> None:
    """Show a source: its kind, its address, the number of its documents and chunks, and what its latest run did."""
    with screen.connect() as client:
        source = client.source(short_ids.source(client, source_id, namespace), namespace=namespace)
    _print(source)


@sources.command()
def add(
    url: Annotated[str, Argument(help="Such as file:///folder, s3://bucket/path or git+https://host/repository.")],
    namespace: Annotated[str, Option("--namespace", "-n", help="The namespace of its documents.")],
    every: Annotated[str, Option("--every", help="From one run to the next: 30m, 1h, 1d.")] = "1h",
    rules: Annotated[
        Path | None, Option("--rules", help="A JSON file with rules: ids, tags, metadata and readers by path.")
    ] = None,
    secret: Annotated[
        Path | None, Option("--secret", help="A JSON file with what the store asks for; - reads standard input.")
    ] = None,
    source_id: Annotated[str | None, Option("--id", help="The source's id; made from the URL without it.")] = None,
) -> None:
    """Follow a store of files, so that its documents stay current. A URL that is followed already gets this interval and
    these rules, and keeps its secret without a new one."""
    seconds = screen.span_s(every, "--every")
    given_rules = None if rules is None else screen.read_json(rules, list)
    given_secret = None if secret is None else screen.read_json(secret, dict)
    with screen.connect() as client:
        source = client.follow_source(
            url,
            namespace=namespace,
            every_seconds=seconds,
            rules=given_rules,
            secret=given_secret,
            source_id=source_id,
        )
    job = source.followed.job_id if source.followed else None
    screen.report(source.raw, f"following as source {source.source_id}; its first run is job {job}")


@sources.command()
def run(source_id: SourceIdArgument, namespace: NamespaceOption) -> None:
    """Begin a run now, and print its job; that of the run under way if there is one."""
    _begin(Chordwise.run_source, source_id, namespace, "running as job")


@sources.command()
def confirm(source_id: SourceIdArgument, namespace: NamespaceOption) -> None:
    """Let a run remove the documents that wait for a confirmation: more than a fifth were gone from the source."""
    _begin(Chordwise.confirm_source, source_id, namespace, "confirmed; running as job")


@sources.command()
def pause(
    source_id: SourceIdArgument,
    namespace: NamespaceOption,
    resume: Annotated[bool, Option("--resume", help="Follow it again instead.")] = False,
) -> None:
    """Begin no run of a source by itself any more; its documents stay."""
    with screen.connect() as client:
        found = short_ids.source(client, source_id, namespace)
        steer = client.resume_source if resume else client.pause_source
        source = steer(found, namespace=namespace)
    screen.report(source.raw, "resumed" if resume else "paused")


@sources.command("remove")
@sources.command("delete", hidden=True)
def delete_source(
    source_id: SourceIdArgument,
    namespace: NamespaceOption,
    keep: Annotated[bool, Option("--keep-documents", help="Follow it no longer, and leave its documents.")] = False,
) -> None:
    """Delete a source with all its documents, pending ones too, and follow it no longer."""
    with screen.connect() as client:
        found = short_ids.source(client, source_id, namespace)
        deletion = client.delete_source(found, namespace=namespace, keep_documents=keep or None)
    sentence = (
        "removed; its documents stay" if keep else f"deleted with {screen.plural(deletion.documents, 'document')}"
    )
    screen.report(deletion.raw, sentence)


def _begin(start: Callable[..., str], source_id: str, namespace: str, done: str) -> None:
    with screen.connect() as client:
        job_id = start(client, short_ids.source(client, source_id, namespace), namespace=namespace)
    screen.report({"job_id": job_id}, f"{done} {job_id}")


def _print(source: SourceInfo) -> None:
    statuses = ", ".join(f"{count} {name}" for name, count in source.statuses.items() if count)
    facts = {
        "source": source.source_id,
        "kind": source.kind,
        "uri": source.uri,
        "media type": None if source.followed else source.media_type,
        "encoding": source.encoding,
        "pages": None if source.page_start is None else f"{source.page_start} to {source.page_end}",
        "documents": f"{source.documents}: {statuses}" if statuses else str(source.documents),
        "chunks": str(source.chunks),
        **({} if source.followed is None else _facts(source.followed)),
    }
    screen.print_facts(source, {name: value for name, value in facts.items() if value})
    if not screen.as_json() and source.followed and source.followed.run:
        for change in source.followed.run.changes[: screen.MOST_LINES]:
            screen.say(f"{change.action} {change.path}: {change.reason}")


def _facts(followed: FollowedSource) -> dict[str, str | None]:
    run, held = followed.run, followed.held_removals
    return {
        "followed": _state(followed),
        "secret": "stored" if followed.has_secret else None,
        "rules": screen.plural(len(followed.rules), "rule") if followed.rules else None,
        "next run": screen.moment(followed.next_run_at),
        "latest job": followed.job_id,
        "latest run": None if run is None else _outcome(run),
        "waiting": f"{held} documents are gone from the source; chordwise sources confirm removes them"
        if held
        else None,
    }


def _outcome(run: SourceRun) -> str:
    counts = ("listed", "added", "changed", "removed", "unchanged", "skipped")
    told = ", ".join(f"{getattr(run, name)} {name}" for name in counts if getattr(run, name))
    return f"{screen.moment(run.ended_at)}: {run.error or told or 'no files'}"


def _state(followed: FollowedSource | None) -> str:
    if followed is None:
        return ""
    if followed.held_removals:
        return "asks"
    if followed.next_run_at is None:
        return "paused"
    return f"every {_interval(followed.every_seconds)}"


def _interval(seconds: int) -> str:
    unit = next((unit for unit in "dhm" if seconds % screen.UNITS_S[unit] == 0), "s")
    return f"{seconds // screen.UNITS_S[unit]}{unit}"
