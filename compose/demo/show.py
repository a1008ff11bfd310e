"""Formatting of the demo's results for a log of 120 columns, with Chinese characters counted as two."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from statistics import fmean, median

from questions import Question, rank_of_expected
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from chordwise import Alignment, Health, Hit, Ingestion, QueryResult

LOG_COLUMNS = 120
STAGES = ("keyword", "semantic", "fuse", "rerank", "hydrate", "total")


def console() -> Console:
    """Return the demo's console: as wide as the terminal, or ``LOG_COLUMNS`` in a log."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    return Console(width=None if sys.stdout.isatty() else LOG_COLUMNS, highlight=False, soft_wrap=False)


class Printer:
    """Prints the demo's steps, and counts the failed expectations."""

    def __init__(self, to: Console) -> None:
        self._to = to
        self._last_progress = ""
        self.failures: list[str] = []
        self.checks = 0

    def step(self, title: str) -> None:
        """Announce the next part."""
        self._to.print()
        self._to.rule(f"[bold]{escape(title)}", align="left", characters="-")

    def say(self, sentence: str) -> None:
        """Print one line of text."""
        self._to.print(escape(sentence))

    def check(self, holds: bool, sentence: str) -> None:
        """Print whether an expectation holds; one that does not makes the demo fail at its end."""
        self.checks += 1
        if not holds:
            self.failures.append(sentence)
        self._to.print(f"[green]ok[/]      {escape(sentence)}" if holds else f"[bold red]FAILED[/]  {escape(sentence)}")

    def health(self, health: Health) -> None:
        """Print each dependency of the gateway, and whether it answers."""
        for name, dependency in health.dependencies.items():
            took = "" if dependency.latency_ms is None else f", {dependency.latency_ms:.1f} ms"
            self.say(f"  {name:<12} {dependency.status}{took}")

    def progress(self, namespace: str, ingestion: Ingestion) -> None:
        """Print the progress of an ingestion, unless it is unchanged."""
        line = (
            f"  {namespace}: {ingestion.succeeded} of {ingestion.total} documents searchable, {ingestion.chunks} chunks"
        )
        if line != self._last_progress:
            self.say(line)
            self._last_progress = line

    def answer(self, question: Question, result: QueryResult) -> None:
        """Print the hits of one query with their ranks in each channel, and the timing."""
        self._to.print()
        self._to.print(f"[bold]? {escape(str(question))}")
        self._to.print(hits_table(result))
        for line in stats_lines(result):
            self.say(f"  {line}")

    def summary(self, answers: Sequence[tuple[Question, QueryResult]]) -> None:
        """Print one row per query, and the averages over all."""
        self._to.print(summary_table(answers))
        self.say("  " + averages_line([result for _, result in answers]))

    def alignment(self, alignment: Alignment) -> None:
        """Print the contents of both stores, namespace by namespace."""
        self._to.print(alignment_table(alignment))


def hits_table(result: QueryResult) -> Table:
    """Return the hits, best first: rank and score in each channel, fused and reranked score, and the movement."""
    channels = list(dict.fromkeys(source.channel for hit in result.chunks for source in hit.sources))
    channels.sort(key=lambda name: ("keyword", "semantic").index(name) if name in ("keyword", "semantic") else 2)
    table = _table()
    _add_numbers(table, "#")
    table.add_column("document", max_width=36, no_wrap=True, overflow="ellipsis")
    _add_numbers(table, *(f"{channel}\nrank   score" for channel in channels), "fused", "reranked", "moved")
    table.add_column("source", no_wrap=True)
    for rank, hit in enumerate(result.chunks, start=1):
        table.add_row(
            str(rank),
            escape(hit.title or hit.document_id),
            *(_seen_by(hit, channel) for channel in channels),
            _number(fused_score(hit)),
            _number(hit.rerank.score if hit.rerank else None),
            movement(rank, hit.rerank.from_rank if hit.rerank else None),
            hit.source or "-",
        )
    return table


def fused_score(hit: Hit) -> float | None:
    """Return the sum of the channels' contributions, before reranking; None if the answer lacks them."""
    parts = [source.contribution for source in hit.sources if source.contribution is not None]
    return sum(parts) if parts else None


def movement(rank: int, from_rank: int | None) -> str:
    """Return how many places reranking lifted (+) or lowered (-) a hit."""
    if from_rank is None:
        return "-"
    return "=" if from_rank == rank else f"{from_rank - rank:+d}"


def stats_lines(result: QueryResult) -> tuple[str, str]:
    """Return hits per channel, share of the sources and rerank lift; then the timing, in milliseconds."""
    stats = result.stats
    times = [f"{stage} {stats.latency_ms[stage]:.1f}" for stage in STAGES if stage in stats.latency_ms]
    hits, share = _pairs(stats.hits.items(), "{:.0f}"), _share(stats.source_share)
    counts = f"hits {hits} | share {share} | rerank lift {_lift(stats.rerank_lift)}"
    return counts, "ms: " + (", ".join(times) or "-")


def summary_table(answers: Sequence[tuple[Question, QueryResult]]) -> Table:
    """Return for every query: the rank of the expected document, the channels' contributions, and the time."""
    table = _table()
    table.add_column("query", max_width=44, no_wrap=True, overflow="ellipsis")
    _add_numbers(table, "found at")
    table.add_column("share of sources", no_wrap=True)
    _add_numbers(table, "rerank lift", "total ms")
    for question, result in answers:
        table.add_row(
            escape(question.text),
            str(rank_of_expected(question, result) or "-"),
            _share(result.stats.source_share),
            _lift(result.stats.rerank_lift),
            _number(result.stats.latency_ms.get("total"), digits=1),
        )
    return table


def averages_line(results: Sequence[QueryResult]) -> str:
    """Return the shares and the lift averaged over queries, and the median time."""
    channels = dict.fromkeys(name for result in results for name in result.stats.source_share)
    shares = {name: fmean(result.stats.source_share.get(name, 0.0) for result in results) for name in channels}
    lifts = [result.stats.rerank_lift for result in results if result.stats.rerank_lift is not None]
    times = [result.stats.latency_ms["total"] for result in results if "total" in result.stats.latency_ms]
    lift, total = _lift(fmean(lifts) if lifts else None), _number(median(times) if times else None, digits=1)
    return f"mean share {_share(shares)} | mean rerank lift {lift} | median total {total} ms"


def alignment_table(alignment: Alignment) -> Table:
    """Return the counts in both stores, and their three kinds of differences."""
    table = _table()
    table.add_column("namespace", no_wrap=True)
    counts = ("documents", "chunks", "vectors", "missing", "orphaned", "stale")
    _add_numbers(table, *counts)
    for row in alignment.namespaces:
        table.add_row(escape(row.namespace), *map(str, attrgetter(*counts)(row)))
    return table


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))


def _add_numbers(table: Table, *heads: str) -> None:
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)


def _seen_by(hit: Hit, channel: str) -> str:
    for source in hit.sources:
        if source.channel == channel:
            rank = "-" if source.rank is None else str(source.rank)
            return f"{rank} {_number(source.score):>8}"
    return "-"


def _number(value: float | None, *, digits: int = 4) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _lift(value: float | None) -> str:
    return "-" if value is None else f"{value:+.3f}"


def _share(shares: Mapping[str, float]) -> str:
    return _pairs(shares.items(), "{:.0%}")


def _pairs(pairs: Iterable[tuple[str, float]], form: str) -> str:
    return ", ".join(f"{name} {form.format(value)}" for name, value in pairs) or "-"
