"""``chordwise trace`` and ``chordwise why-not``: explain an answer."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chordwise.api.explanations import Trace
from chordwise.cli import screen, short_ids

if TYPE_CHECKING:
    from rich.console import Console

QueryId = Annotated[str, typer.Argument(metavar="QUERY_ID", help="The query's id, from its answer; 8 digits suffice.")]


def trace(query_id: QueryId, as_json: screen.Json = False) -> None:
    """Explain the answer of a query asked with --trace.

    Prints the numbers behind each chunk's position, then the hits, drops and time of each step.
    """
    with screen.connect() as client:
        explained = client.trace(short_ids.query(client, query_id))
    if as_json:
        screen.print_json(explained.raw)
    else:
        show_trace(explained, screen.stdout())


def traces(
    mark: Annotated[
        str | None, typer.Option("--mark", help="Only slow, degraded, failed, empty, requested or sampled queries.")
    ] = None,
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Only queries to this namespace.")] = None,
    profile: Annotated[str | None, typer.Option("--profile", help="Only queries with this profile.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Number of rows.")] = 50,
    as_json: screen.Json = False,
) -> None:
    """List kept traces, newest first. Needs a key with the scope admin."""
    with screen.connect() as client:
        rows = client.traces(mark=mark, namespace=namespace, profile=profile, limit=limit)
    screen.print_list(
        rows,
        ("asked", "query", "question", "namespaces", "marks", "chunks", "ms"),
        lambda row: (
            *(screen.moment(row.asked_at), row.query_id, row.text, ", ".join(row.namespaces)),
            *(", ".join(row.marks), row.chunks, _ms(row.total_ms)),
        ),
        as_json=as_json,
        empty="No traces.",
        numbers=("chunks", "ms"),
    )


def why_not(
    query_id: QueryId,
    chunk_id: Annotated[str, typer.Argument(metavar="CHUNK_ID", help="The chunk that was expected.")],
    as_json: screen.Json = False,
) -> None:
    """Explain why a chunk is not in an answer: the step that dropped it, and the number that decided."""
    with screen.connect() as client:
        reason = client.why_not(short_ids.query(client, query_id), chunk_id)
    if as_json:
        screen.print_json(reason.raw)
        return
    screen.say(screen.clean(f"{reason.stage}: {reason.detail}"))
    if reason.channels:
        numbers = ("its score", "its rank", "last recalled", "recalled")
        keys = ("score", "rank", "cutoff", "recalled")
        rows = (
            (name, channel.get("status"), *(_number(channel.get(key)) for key in keys))
            for name, channel in reason.channels.items()
        )
        screen.print_table(("channel", "status", *numbers), rows, numbers=numbers)
    if reason.replayed:
        screen.say("The query had no trace; it was run again on the current documents.")


def show_trace(trace: Trace, console: Console) -> None:
    """Print the explanations, the hits of each channel, and the steps."""
    from rich.text import Text

    for sentence in trace.explained:
        console.print(Text(screen.clean(sentence)))
    console.print()
    channels = screen.table("channel", "status", "recalled", "ms", numbers=("recalled", "ms"))
    for name, channel in trace.channels.items():
        hits, status = channel.get("hits") or (), str(channel.get("code") or channel.get("status") or "")
        channels.add_row(screen.clean(name), screen.clean(status), str(len(hits)), _ms(trace.timings_ms.get(name)))
    console.print(channels)
    console.print()
    steps = screen.table("step", "hits", "left out", "ms", numbers=("hits", "ms"))
    for name, hits, left_out in _steps(trace):
        steps.add_row(screen.clean(name), hits, screen.clean(left_out), _ms(trace.timings_ms.get(name)))
    console.print(steps)
    for lost in trace.degradations:
        console.print(Text(screen.clean(f"lost: {lost.get('part')}, {lost.get('detail')}"), style="yellow"))
    for remark in trace.remarks:
        console.print(Text(screen.clean(remark)))


def _steps(trace: Trace) -> list[tuple[str, str, str]]:
    """Return each step with its hits and drops, then the steps of which only the time is known."""
    left_out: dict[str, Counter[str]] = {}
    for drop in trace.drops:
        left_out.setdefault(drop.stage, Counter())[drop.reason.replace("_", " ")] += 1
    hits = {step.stage if step.round == 1 else f"{step.stage} (2nd)": str(len(step.hits)) for step in trace.stages}
    for name in (*left_out, *trace.timings_ms):
        if name not in trace.channels and name != "total":
            hits.setdefault(name, "")
    if "total" in trace.timings_ms:
        hits["total"] = ""
    reasons = {
        stage: ", ".join(f"{count} {reason}" for reason, count in counts.items()) for stage, counts in left_out.items()
    }
    return [(name, count, reasons.get(name, "")) for name, count in hits.items()]


def _number(value: Any) -> str:
    return "-" if value is None else f"{value:.6g}" if isinstance(value, int | float) else screen.clean(str(value))


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
