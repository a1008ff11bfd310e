"""``chordwise trace`` and ``chordwise why-not``: why an answer is as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from chordwise.api.explanations import Trace
from chordwise.cli import screen

QueryId = Annotated[str, typer.Argument(metavar="QUERY_ID", help="The query's id, from its answer.")]


def trace(query_id: QueryId, as_json: screen.Json = False) -> None:
    """Show how an answer came about, of a query asked with --trace.

    Says of every chunk which numbers put it in its place, then what each step was given, left out and took.
    """
    with screen.connect() as client:
        found = client.trace(query_id)
    if as_json:
        screen.print_json(dict(found.raw))
    else:
        show_trace(found, screen.stdout())


def why_not(
    query_id: QueryId,
    chunk_id: Annotated[str, typer.Argument(metavar="CHUNK_ID", help="The chunk that was expected.")],
    as_json: screen.Json = False,
) -> None:
    """Say why a chunk is not in an answer: the step at which it was lost, and the number that decided it."""
    with screen.connect() as client:
        found = client.why_not(query_id, chunk_id)
    if as_json:
        screen.print_json(dict(found.raw))
        return
    screen.say(screen.clean(f"{found.stage}: {found.detail}"))
    if found.channels:
        screen.stdout().print(_channels(found.channels))
    if found.replayed:
        screen.say("The query had kept no trace; it was run again, on the documents as they are now.")


def show_trace(trace: Trace, console: Console) -> None:
    """Print the sentences, what the channels said, and what each step did."""
    for sentence in trace.explained:
        console.print(Text(screen.clean(sentence)))
    console.print()
    said = screen.table("channel", "status", "recalled", "ms", numbers=("recalled", "ms"))
    for name, channel in trace.channels.items():
        hits, status = channel.get("hits") or (), str(channel.get("code") or channel.get("status") or "")
        said.add_row(screen.clean(name), screen.clean(status), str(len(hits)), _ms(trace.timings_ms.get(name)))
    console.print(said)
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
    """Every step with the hits after it and what it left out, then those of which only the time is known."""
    left_out: dict[str, Counter[str]] = {}
    for drop in trace.drops:
        left_out.setdefault(drop.stage, Counter())[drop.reason.replace("_", " ")] += 1
    rows = [(each.stage if each.round == 1 else f"{each.stage} (2nd)", str(len(each.hits))) for each in trace.stages]
    known = dict(rows)
    for name in (*left_out, *trace.timings_ms):
        if name not in trace.channels and name != "total":
            known.setdefault(name, "")
    reasons = {
        stage: ", ".join(f"{count} {reason}" for reason, count in counts.items()) for stage, counts in left_out.items()
    }
    total = {"total": ""} if "total" in trace.timings_ms else {}
    return [(name, hits, reasons.get(name, "")) for name, hits in {**known, **total}.items()]


def _channels(channels: Mapping[str, Mapping[str, Any]]) -> Any:
    numbers = ("its score", "its rank", "last recalled", "recalled")
    made = screen.table("channel", "status", *numbers, numbers=numbers)
    for name, said in channels.items():
        cells = (said.get("score"), said.get("rank"), said.get("cutoff"), said.get("recalled"))
        made.add_row(screen.clean(name), screen.clean(str(said.get("status") or "")), *map(_number, cells))
    return made


def _number(value: Any) -> str:
    return "-" if value is None else f"{value:.6g}" if isinstance(value, int | float) else screen.clean(str(value))


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
