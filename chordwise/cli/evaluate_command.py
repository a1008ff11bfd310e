"""``chordwise eval``: how well a namespace answers a judged collection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from chordwise.async_client import AsyncChordwise
from chordwise.cli import screen
from chordwise.cli.ingest_command import tell_indexed
from chordwise.client import Chordwise
from chordwise.errors import ChordwiseError, InvalidInput
from chordwise.evaluation.ask import Measured
from chordwise.evaluation.collection import Collection, JudgedQuery, read_collection
from chordwise.evaluation.evaluate import WAYS, Report, Way, evaluate, ingest_if_empty, ways_of
from chordwise.evaluation.significance import Paired, paired
from chordwise.files import read_lines

MEASURES = ("ndcg@10", "mrr@10", "recall@100")

Run = Mapping[tuple[str, str], Mapping[str, float]]  # by way and query, what each measure said


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Run B against run A in one way of asking, by one measure."""

    way: str
    measure: str
    result: Paired

    def as_json(self) -> dict[str, Any]:
        """As it is printed."""
        found = asdict(self.result)
        figures = {name: round(value, 6) if isinstance(value, float) else value for name, value in found.items()}
        return {"way": self.way, "measure": self.measure, **figures}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two runs. ``unpaired`` counts answers that only one of them has, and that are left out."""

    rows: tuple[Compared, ...]
    unpaired: int


def write_run(path: Path, answers: Iterable[Measured]) -> None:
    """One JSON object a line. Raises InvalidInput if the file cannot be written."""
    try:
        with path.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(each.as_json(), ensure_ascii=False) + "\n" for each in answers)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from error


def read_run(path: Path) -> dict[tuple[str, str], dict[str, float]]:
    """What ``write_run`` wrote. Raises InvalidInput, naming the line."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for number, line in read_lines(path):
        try:
            entry = json.loads(line)
            found[entry["way"], entry["query_id"]] = {name: float(entry[name]) for name in MEASURES}
        except (ValueError, KeyError, TypeError):
            raise InvalidInput(f"{path}:{number} is no answer of an evaluation") from None
    if not found:
        raise InvalidInput(f"{path} holds no answer")
    return found


def compare(a: Run, b: Run) -> Comparison:
    """B against A, in every way that both were asked. Pure. Raises InvalidInput if they share no query."""
    shared = [key for key in a if key in b]
    if not shared:
        raise InvalidInput("the two runs have no query in common")
    rows = []
    for way in dict.fromkeys(way for way, _ in shared):
        keys = [key for key in shared if key[0] == way]
        for measure in MEASURES:
            result = paired([a[key][measure] for key in keys], [b[key][measure] for key in keys])
            rows.append(Compared(way=way, measure=measure, result=result))
    return Comparison(rows=tuple(rows), unpaired=len(a) + len(b) - 2 * len(shared))


_Floors = Annotated[
    list[str] | None,
    typer.Option(
        "--min-ndcg",
        metavar="[WAY=]FLOOR",
        help="Exit with 1 below this nDCG@10; WAY is fused if not said. Repeatable.",
    ),
]


def evaluate_collection(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", exists=True, file_okay=False, help="The folder of the collection.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Where its documents are, or shall be.")
    ] = None,
    profile: Annotated[str | None, typer.Option("--profile", help="Ask under this profile.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Ask only the first N queries.")] = None,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, max=64, help="Queries under way at once.")] = 8,
    min_ndcg: _Floors = None,
    per_query: Annotated[
        Path | None, typer.Option("--per-query", dir_okay=False, help="Write every answer to this file, as JSON Lines.")
    ] = None,
    runs: Annotated[
        tuple[Path, Path] | None,
        typer.Option("--compare", metavar="A.jsonl B.jsonl", help="Ask nothing: compare two files of --per-query."),
    ] = None,
    max_loss: Annotated[
        float | None,
        typer.Option("--max-loss", min=0, max=1, help="With --compare: exit with 1 if nDCG@10 falls more."),
    ] = None,
    as_json: screen.Json = False,
) -> None:
    """Measure retrieval on a judged collection.

    DIR has corpus.jsonl {"doc_id", "title", "text"}, queries.jsonl {"query_id", "text"} and qrels.tsv (query, document
    and grade, separated by tabs, no header), each of which may be gzipped. If the namespace is empty the corpus is
    ingested first. Every query is asked four times, for 100 chunks each: keyword channel, semantic channel, both fused,
    fused and reranked. Printed are nDCG@10 (linear gain), MRR@10 and Recall@100, and the latency of reranked queries
    as seen from here, under the load of --concurrency.

    Exits with 1 if a query had no answer, or if a floor was not reached.
    """
    if runs is not None:
        if folder is not None:
            raise typer.BadParameter("compares two files, and takes no DIR", param_hint="--compare")
        _compare(*runs, max_loss=max_loss, as_json=as_json)
        return
    if folder is None or namespace is None:
        raise typer.BadParameter("DIR and --namespace are needed, or else --compare")
    collection = read_collection(folder)
    queries = collection.queries[:limit]
    known = screen.connection()
    with Chordwise(known.url, known.api_key) as client, screen.Ticker(quiet=as_json) as ticker:
        ways = WAYS if profile is None else ways_of(client.profile(profile).plan)
        floors = _floors(min_ndcg or [], ways)
        documents, empty = collection.count()
        done = ingest_if_empty(
            client,
            collection,
            namespace,
            on_sent=lambda state: ticker.tell("documents sent", state.total, documents),
            on_indexed=lambda state: tell_indexed(ticker, state),
        )
        held = next((one.documents for one in client.namespaces() if one.namespace == namespace), 0)
    report = asyncio.run(_ask(queries, namespace, profile, ways, concurrency=concurrency, quiet=as_json))
    if per_query is not None:
        write_run(per_query, report.answers)
    missed = _missed(report, floors)
    if as_json:
        told = _as_json(collection, namespace, report, held=held, empty=empty)
        screen.print_json({**told, "profile": profile, "missed": missed})
    else:
        asked = screen.plural(report.queries, "query", "queries")
        note = "ingested now" if done else "there before"
        expected = "" if held == documents or not documents else f", though the collection has {documents}"
        screen.say(f"{collection.name} in {namespace}: {asked}, {held} documents ({note}{expected})")
        _show(report, empty=empty)
    if report.failed:
        raise ChordwiseError(f"{screen.plural(report.failed, 'query', 'queries')} had no answer, counted as 0")
    if missed:
        raise ChordwiseError("; ".join(missed))


async def _ask(
    queries: Sequence[JudgedQuery],
    namespace: str,
    profile: str | None,
    ways: Sequence[Way],
    *,
    concurrency: int,
    quiet: bool,
) -> Report:
    known = screen.connection()
    asked = len(queries) * len(ways)
    async with AsyncChordwise(known.url, known.api_key) as client:
        with screen.Ticker(quiet=quiet) as ticker:
            return await evaluate(
                client,
                queries,
                namespace,
                profile=profile,
                ways=ways,
                concurrency=concurrency,
                on_answer=lambda answered: ticker.tell("queries answered", answered, asked),
            )


def _floors(given: Sequence[str], ways: Sequence[Way]) -> dict[str, float]:
    floors: dict[str, float] = {}
    names = [way.name for way in ways]
    for each in given:
        way, _, number = each.rpartition("=")
        try:
            floors[way or "fused"] = float(number)
        except ValueError:
            raise typer.BadParameter(f"{each} is no number, and no WAY=NUMBER", param_hint="--min-ndcg") from None
        if (way or "fused") not in names:
            raise typer.BadParameter(f"{way} is none of {', '.join(names)}", param_hint="--min-ndcg")
    return floors


def _missed(report: Report, floors: dict[str, float]) -> list[str]:
    """What fell short, as sentences."""
    found = {way: (report.results[way].ndcg_at_10, floor) for way, floor in floors.items()}
    return [
        f"nDCG@10 of {way} is {value:.4f}, below {floor:g}" for way, (value, floor) in found.items() if value < floor
    ]


def _compare(a: Path, b: Path, *, max_loss: float | None, as_json: bool) -> None:
    found = compare(read_run(a), read_run(b))
    if as_json:
        screen.print_json({"rows": [row.as_json() for row in found.rows], "unpaired": found.unpaired})
    else:
        _show_comparison(found)
    losses = [
        f"nDCG@10 of {row.way} fell by {-row.result.difference:.4f}"
        for row in found.rows
        if max_loss is not None and row.measure == MEASURES[0] and -row.result.difference > max_loss
    ]
    if losses:
        raise ChordwiseError("; ".join(losses))


def _show_comparison(found: Comparison) -> None:
    columns = ("A", "B", "B - A", "p", "better", "worse", "queries")
    table = screen.table("", "measure", *columns, numbers=columns)
    for row in found.rows:
        result = row.result
        figures = (f"{result.mean_a:.4f}", f"{result.mean_b:.4f}", f"{result.difference:+.4f}", f"{result.p:.4f}")
        table.add_row(row.way, row.measure, *figures, str(result.better), str(result.worse), str(result.queries))
    screen.stdout().print(table)
    if found.unpaired:
        screen.say(f"{screen.plural(found.unpaired, 'answer')} of one run only, left out")


def _as_json(collection: Collection, namespace: str, report: Report, *, held: int, empty: int) -> dict[str, Any]:
    results = {name: scores.as_json() for name, scores in report.results.items()}
    return {
        "collection": collection.name,
        "namespace": namespace,
        "documents": held,
        "skipped_documents": empty,
        "queries": report.queries,
        "results": results,
        "degraded": report.degraded,
        "failed": report.failed,
        "latency_ms": {"p50": round(report.p50_ms, 1), "p95": round(report.p95_ms, 1)},
    }


def _show(report: Report, *, empty: int) -> None:
    measures = ("nDCG@10", "MRR@10", "Recall@100")
    table = screen.table("", *measures, numbers=measures)
    for name, scores in report.results.items():
        figures = (scores.ndcg_at_10, scores.mrr_at_10, scores.recall_at_100)
        table.add_row(name, *(f"{figure:.4f}" for figure in figures))
    screen.stdout().print(table)
    skipped = f", {screen.plural(empty, 'empty document')} skipped" if empty else ""
    screen.say(
        f"latency p50 {report.p50_ms:.0f} ms, p95 {report.p95_ms:.0f} ms; degraded answers {report.degraded}{skipped}"
    )
