"""``chordwise eval``: retrieval quality on a judged collection."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer import Argument, Option

from chordwise.api.files import read_lines
from chordwise.api.jobs import Ingestion
from chordwise.async_client import AsyncChordwise
from chordwise.cli import screen
from chordwise.client import Chordwise
from chordwise.config import discover
from chordwise.errors import ChordwiseError, InvalidInput, file_errors
from chordwise.evaluation.ask import Measured
from chordwise.evaluation.collection import Collection, read_collection
from chordwise.evaluation.evaluate import WAYS, Report, Way, evaluate, ingest_if_empty, ways_of
from chordwise.evaluation.significance import Paired, paired

T = TypeVar("T")
MEASURES = ("ndcg@10", "mrr@10", "recall@100")

Run = Mapping[tuple[str, str], Mapping[str, float]]  # measures by (way, query)


Comparison = Mapping[tuple[str, str], Paired]  # of run B with run A, by (way, measure)


def write_run(path: Path, answers: Iterable[Measured]) -> None:
    """Write one JSON object a line. Raises InvalidInput if the file cannot be written."""
    with file_errors(path, "written"), path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(answer.as_json(), ensure_ascii=False) + "\n" for answer in answers)


def read_run(path: Path) -> dict[tuple[str, str], dict[str, float]]:
    """Read a file of ``write_run``. Raises InvalidInput, naming the line."""
    run: dict[tuple[str, str], dict[str, float]] = {}
    for number, line in read_lines(path):
        try:
            entry = json.loads(line)
            run[entry["way"], entry["query_id"]] = {name: float(entry[name]) for name in MEASURES}
        except (ValueError, KeyError, TypeError):
            raise InvalidInput(f"{path}:{number} is not an answer of an evaluation") from None
    if not run:
        raise InvalidInput(f"{path} holds no answer")
    return run


def compare(a: Run, b: Run) -> tuple[Comparison, int]:
    """Compare B with A in every way that both were asked. Return also how many answers of only one of them are left out.
    Pure. Raises InvalidInput if they share no query."""
    shared = [key for key in a if key in b]
    if not shared:
        raise InvalidInput("the two runs have no query in common")
    by_way = {way: [key for key in shared if key[0] == way] for way in dict.fromkeys(way for way, _ in shared)}
    compared = {
        (way, measure): paired(*([run[key][measure] for key in keys] for run in (a, b)))
        for way, keys in by_way.items()
        for measure in MEASURES
    }
    return compared, len(a) + len(b) - 2 * len(shared)


def fill(
    client: Chordwise, collection: Collection, namespace: str, documents: int, ticker: screen.Ticker
) -> Ingestion | None:
    """Ingest the ``documents`` of the collection if the namespace is empty, and show the progress."""
    return ingest_if_empty(
        client,
        collection,
        namespace,
        on_sent=lambda state: ticker.show("documents sent", state.total, documents),
        on_indexed=lambda state: ticker.show_finished("documents indexed", state),
    )


def run_queries(ask: Callable[[AsyncChordwise, Callable[[int], None]], Awaitable[T]], total: int | None = None) -> T:
    """Call ``ask`` with a client and with a function that shows how many of ``total`` queries are answered."""

    async def run() -> T:
        server = discover()
        async with AsyncChordwise(server.url, server.api_key) as client:
            with screen.Ticker() as ticker:
                return await ask(client, lambda count: ticker.show("queries answered", count, total))

    return asyncio.run(run())


Folder = Annotated[Path, Argument(metavar="DIR", exists=True, file_okay=False, help="The folder of the collection.")]
ProfileOption = Annotated[str | None, Option("--profile", help="Use this profile.")]
Limit = Annotated[int | None, Option("--limit", min=1, help="Use only the first N queries.")]


def evaluate_collection(
    folder: Annotated[
        Path | None, Argument(metavar="DIR", exists=True, file_okay=False, help="The folder of the collection.")
    ] = None,
    namespace: Annotated[
        str | None, Option("--namespace", "-n", help="Namespace of its documents; filled if empty.")
    ] = None,
    profile: ProfileOption = None,
    limit: Limit = None,
    min_ndcg: Annotated[
        list[str] | None,
        Option(
            "--min-ndcg",
            metavar="[WAY=]FLOOR",
            help="Exit with 1 below this nDCG@10; WAY defaults to fused. Repeatable.",
        ),
    ] = None,
    per_query: Annotated[
        Path | None, Option("--per-query", dir_okay=False, help="Write every answer to this file, as JSON Lines.")
    ] = None,
    runs: Annotated[
        tuple[Path, Path] | None,
        Option("--compare", metavar="A.jsonl B.jsonl", help="Send no queries: compare two files of --per-query."),
    ] = None,
    max_loss: Annotated[
        float | None, Option("--max-loss", min=0, max=1, help="With --compare: exit with 1 if nDCG@10 drops by more.")
    ] = None,
) -> None:
    """Measure retrieval on a judged collection.

    DIR has corpus.jsonl {"doc_id", "title", "text"}, queries.jsonl {"query_id", "text"} and qrels.tsv (query, document
    and grade, separated by tabs, no header), each of which may be gzipped. If the namespace is empty the corpus is
    ingested first. Every query is asked four times, for 100 chunks each: keyword channel, semantic channel, both fused,
    fused and reranked. Printed are nDCG@10 (linear gain), MRR@10 and Recall@100, and the time of reranked queries
    in the server, one after another: all queries are answered as a batch, behind those of callers that wait.

    Exits with 1 if a query had no answer, or if a floor was not reached.
    """
    if runs is not None:
        if folder is not None:
            raise typer.BadParameter("compares two files, and takes no DIR", param_hint="--compare")
        _compare(*runs, max_loss=max_loss)
        return
    if folder is None or namespace is None:
        raise typer.BadParameter("DIR and --namespace are needed, or else --compare")
    collection = read_collection(folder)
    queries = collection.queries[:limit]
    with screen.connect() as client, screen.Ticker() as ticker:
        ways = WAYS if profile is None else ways_of(client.profile(profile).plan)
        floors = _floors(min_ndcg or [], ways)
        documents, empty = collection.count()
        ingestion = fill(client, collection, namespace, documents, ticker)
        stored = next((info.documents for info in client.namespaces() if info.namespace == namespace), 0)
    report = run_queries(
        lambda client, on_answer: evaluate(client, queries, namespace, profile=profile, ways=ways, on_answer=on_answer),
        len(queries) * len(ways),
    )
    if per_query is not None:
        write_run(per_query, report.answers)
    missed = _missed(report, floors)
    if screen.as_json():
        result = _as_json(collection, namespace, report, stored=stored, empty=empty)
        screen.print_json({**result, "profile": profile, "missed": missed})
    else:
        count = screen.plural(report.queries, "query", "queries")
        note = "ingested now" if ingestion else "there before"
        expected = "" if stored == documents or not documents else f", though the collection has {documents}"
        screen.say(f"{collection.name} in {namespace}: {count}, {stored} documents ({note}{expected})")
        _show(report, empty=empty)
    if report.failed:
        raise ChordwiseError(f"{screen.plural(report.failed, 'query', 'queries')} had no answer, counted as 0")
    if missed:
        raise ChordwiseError("; ".join(missed))


def _floors(options: Sequence[str], ways: Sequence[Way]) -> dict[str, float]:
    floors: dict[str, float] = {}
    names = [way.name for way in ways]
    for option in options:
        way, _, number = option.rpartition("=")
        try:
            floors[way or "fused"] = float(number)
        except ValueError:
            raise typer.BadParameter(f"{option} is not a number or WAY=NUMBER", param_hint="--min-ndcg") from None
        if (way or "fused") not in names:
            raise typer.BadParameter(f"{way} is not one of {', '.join(names)}", param_hint="--min-ndcg")
    return floors


def _missed(report: Report, floors: dict[str, float]) -> list[str]:
    return [
        f"nDCG@10 of {way} is {ndcg:.4f}, below {floor:g}"
        for way, floor in floors.items()
        if (ndcg := report.results[way].ndcg_at_10) < floor
    ]


def _compare(a: Path, b: Path, *, max_loss: float | None) -> None:
    compared, unpaired = compare(read_run(a), read_run(b))
    if screen.as_json():
        rows = [{"way": way, "measure": measure, **_figures(result)} for (way, measure), result in compared.items()]
        screen.print_json({"rows": rows, "unpaired": unpaired})
    else:
        _show_comparison(compared, unpaired)
    losses = [
        f"nDCG@10 of {way} fell by {-result.difference:.4f}"
        for (way, measure), result in compared.items()
        if max_loss is not None and measure == MEASURES[0] and -result.difference > max_loss
    ]
    if losses:
        raise ChordwiseError("; ".join(losses))


def _figures(result: Paired) -> dict[str, Any]:
    values = asdict(result).items()
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in values}


def _show_comparison(compared: Comparison, unpaired: int) -> None:
    columns = ("A", "B", "B - A", "p", "better", "worse", "queries")
    rows = (
        (
            *(way, measure, f"{result.mean_a:.4f}", f"{result.mean_b:.4f}"),
            *(f"{result.difference:+.4f}", f"{result.p:.4f}"),
            *(result.better, result.worse, result.queries),
        )
        for (way, measure), result in compared.items()
    )
    screen.print_table(("", "measure", *columns), rows, numbers=columns)
    if unpaired:
        screen.say(f"{screen.plural(unpaired, 'answer')} of one run only, left out")


def _as_json(collection: Collection, namespace: str, report: Report, *, stored: int, empty: int) -> dict[str, Any]:
    results = {name: scores.as_json() for name, scores in report.results.items()}
    return {
        "collection": collection.name,
        "namespace": namespace,
        "documents": stored,
        "skipped_documents": empty,
        "queries": report.queries,
        "results": results,
        "degraded": report.degraded,
        "failed": report.failed,
        "latency_ms": {"p50": round(report.p50_ms, 1), "p95": round(report.p95_ms, 1)},
    }


def _show(report: Report, *, empty: int) -> None:
    measures = ("nDCG@10", "MRR@10", "Recall@100")
    rows = (
        (name, *(f"{figure:.4f}" for figure in (scores.ndcg_at_10, scores.mrr_at_10, scores.recall_at_100)))
        for name, scores in report.results.items()
    )
    screen.print_table(("", *measures), rows, numbers=measures)
    skipped = f", {screen.plural(empty, 'empty document')} skipped" if empty else ""
    screen.say(
        f"latency p50 {report.p50_ms:.0f} ms, p95 {report.p95_ms:.0f} ms; degraded answers {report.degraded}{skipped}"
    )
