"""The trace of a query as sentences and tables."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from chordwise.api.explanations import Trace
from chordwise.cli import screen

if TYPE_CHECKING:  # rich is imported where something is drawn: --json needs none of it
    from rich.console import Console


def show_trace(trace: Trace, console: Console) -> None:
    """Print the explanations, the hits of each channel, and the steps."""
    from rich.text import Text

    for sentence in trace.explained:
        console.print(Text(screen.clean(sentence)))
    console.print()
    channels = screen.table("channel", "status", "recalled", "ms", numbers=("recalled", "ms"))
    for name, channel in trace.channels.items():
        hits, status = channel.get("hits") or (), str(channel.get("code") or channel.get("status") or "")
        channels.add_row(
            screen.clean(name), screen.clean(status), str(len(hits)), milliseconds(trace.timings_ms.get(name))
        )
    console.print(channels)
    console.print()
    steps = screen.table("step", "hits", "left out", "ms", numbers=("hits", "ms"))
    for name, hits, left_out in _steps(trace):
        steps.add_row(screen.clean(name), hits, screen.clean(left_out), milliseconds(trace.timings_ms.get(name)))
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


def milliseconds(value: float | None) -> str:
    """Return a time for a table; empty if it is not known."""
    return "" if value is None else f"{value:.1f}"
