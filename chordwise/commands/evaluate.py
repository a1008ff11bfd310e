"""``chordwise eval``: how well a namespace answers a judged collection."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from chordwise.async_client import AsyncChordwise
from chordwise.client import Chordwise
from chordwise.commands import screen
from chordwise.commands.ingest import tell_indexed
from chordwise.errors import ChordwiseError
from chordwise.evaluation import WAYS, Report, evaluate, ingest_if_empty
from chordwise.judged import Collection, read_collection


def evaluate_collection(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", exists=True, file_okay=False, help="The folder of the collection.")
    ],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Where its documents are, or shall be.")],
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Ask only the first N queries.")] = None,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, max=64, help="Queries under way at once.")] = 8,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Measure retrieval on a judged collection.

    DIR has corpus.jsonl {"doc_id", "title", "text"}, queries.jsonl {"query_id", "text"} and qrels.tsv (query, document
    and grade, separated by tabs, no header), each of which may be gzipped. If the namespace is empty the corpus is
    ingested first. Every query is asked four times, for 100 chunks each: keyword channel, semantic channel, both fused,
    fused and reranked. Printed are nDCG@10 (linear gain), MRR@10 and Recall@100, and the latency of reranked queries
    as seen from here, under the load of --concurrency.

    Exits with 1 if a query had no answer.
    """
    collection = read_collection(folder)
    documents, empty = collection.count()
    queries = collection.queries[:limit]
    known = screen.connection()
    with Chordwise(known.url, known.api_key) as client, screen.Ticker(quiet=as_json) as ticker:
        done = ingest_if_empty(
            client,
            collection,
            namespace,
            on_sent=lambda state: ticker.tell("documents sent", state.total, documents),
            on_indexed=lambda state: tell_indexed(ticker, state),
        )
        held = next((one.documents for one in client.namespaces() if one.namespace == namespace), 0)

    async def ask() -> Report:
        async with AsyncChordwise(known.url, known.api_key) as client:
            with screen.Ticker(quiet=as_json) as ticker:
                asked = len(queries) * len(WAYS)
                return await evaluate(
                    client,
                    queries,
                    namespace,
                    concurrency=concurrency,
                    on_answer=lambda answered: ticker.tell("queries answered", answered, asked),
                )

    report = asyncio.run(ask())
    if as_json:
        screen.print_json(_as_json(collection, namespace, report, held=held, empty=empty))
    else:
        asked = screen.plural(report.queries, "query", "queries")
        note = "ingested now" if done else "there before"
        expected = "" if held == documents else f", though the collection has {documents}"
        screen.say(f"{collection.name} in {namespace}: {asked}, {held} documents ({note}{expected})")
        _show(report, empty=empty)
    if report.failed:
        raise ChordwiseError(f"{screen.plural(report.failed, 'query', 'queries')} had no answer, counted as 0")


def _as_json(collection: Collection, namespace: str, report: Report, *, held: int, empty: int) -> dict[str, object]:
    results = {
        name: {
            "ndcg@10": round(scores.ndcg_at_10, 4),
            "mrr@10": round(scores.mrr_at_10, 4),
            "recall@100": round(scores.recall_at_100, 4),
        }
        for name, scores in report.results.items()
    }
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
