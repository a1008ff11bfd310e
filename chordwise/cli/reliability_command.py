"""``chordwise reliability``: how well confidence agrees with judgements, and which questions a threshold refuses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from chordwise.async_client import AsyncChordwise
from chordwise.cli import screen
from chordwise.cli.ingest_command import tell_indexed
from chordwise.client import Chordwise
from chordwise.errors import ChordwiseError, InvalidInput
from chordwise.evaluation.collection import JudgedQuery, read_collection
from chordwise.evaluation.evaluate import ingest_if_empty
from chordwise.evaluation.reliability import (
    Judged,
    ask_judged,
    best_of,
    bins_of,
    expected_calibration_error,
    threshold_that_keeps,
)
from chordwise.evaluation.reliability_diagram import diagram
from chordwise.files import read_lines


def reliability(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", exists=True, file_okay=False, help="The folder of the collection.")
    ],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Where its documents are, or shall be.")],
    unanswerable: Annotated[
        Path | None,
        typer.Option(
            "--unanswerable", exists=True, dir_okay=False, help='Questions without an answer: {"text": …} lines.'
        ),
    ] = None,
    language: Annotated[
        str | None, typer.Option("--language", help='Of these, only lines with this "language".')
    ] = None,
    profile: Annotated[str | None, typer.Option("--profile", help="Ask under this profile.")] = None,
    method: Annotated[str | None, typer.Option("--method", help="hybrid, full_text or semantic.")] = None,
    keep: Annotated[
        float,
        typer.Option("--keep", min=0, max=1, help="The share of answerable questions that a threshold shall keep."),
    ] = 0.95,
    threshold: Annotated[float, typer.Option("--threshold", min=0, max=1, help="Report this threshold as well.")] = 0.4,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Ask only the first N queries.")] = None,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, max=64, help="Queries under way at once.")] = 4,
    max_error: Annotated[
        float | None, typer.Option("--max-error", min=0, max=1, help="Exit with 1 above this calibration error.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option("--diagram", dir_okay=False, help="Write the reliability diagram here, as SVG.")
    ] = None,
    beside: Annotated[
        list[Path] | None,
        typer.Option(
            "--beside", exists=True, dir_okay=False, help="Draw what --json printed of another collection too."
        ),
    ] = None,
    as_json: screen.Json = False,
) -> None:
    """Measure how reliable the confidence of answers is, on a judged collection.

    DIR is a folder as for eval. Every query is asked once for ten chunks, without reranking. Printed are the expected
    calibration error of the first hits and of all, and the reliability diagram: for hits of about the same confidence,
    how many of them are relevant; --diagram draws it. With --unanswerable also how many
    questions a threshold keeps and refuses.
    """
    collection = read_collection(folder)
    queries = collection.queries[:limit]
    drawn_before = [_result(path) for path in beside or ()]
    others = [] if unanswerable is None else _questions(unanswerable, language)
    known = screen.connection()
    with Chordwise(known.url, known.api_key) as client, screen.Ticker(quiet=as_json) as ticker:
        documents, _ = collection.count()
        ingest_if_empty(
            client,
            collection,
            namespace,
            on_sent=lambda state: ticker.tell("documents sent", state.total, documents),
            on_indexed=lambda state: tell_indexed(ticker, state),
        )
    options = {"namespace": namespace, "profile": profile, "method": method, "rerank": False}

    async def ask() -> list[list[Judged]]:
        asked = [*queries, *others]
        async with AsyncChordwise(known.url, known.api_key) as client:
            with screen.Ticker(quiet=as_json) as ticker:
                return await ask_judged(
                    client,
                    asked,
                    concurrency=concurrency,
                    options=options,
                    on_answer=lambda count: ticker.tell("queries answered", count, len(asked)),
                )

    answers = asyncio.run(ask())
    found = _measured(answers[: len(queries)], answers[len(queries) :], keep=keep, threshold=threshold)
    whole = {"collection": collection.name, "namespace": namespace, **found}
    if picture is not None:
        picture.write_text(diagram([*drawn_before, whole]), encoding="utf-8")
    if as_json:
        screen.print_json(whole)
    else:
        _show(found, collection.name)
    if max_error is not None and found["ece_first"] > max_error:
        raise ChordwiseError(f"the calibration error of first hits is {found['ece_first']:.3f}, above {max_error:g}")


def _measured(
    answers: Sequence[Sequence[Judged]], others: Sequence[Sequence[Judged]], *, keep: float, threshold: float
) -> dict[str, Any]:
    hits = list(chain.from_iterable(answers))
    first = [hit for hit in hits if hit.place == 1]
    best, refused = best_of(answers), best_of(others)
    chosen = threshold_that_keeps(best, keep)
    return {
        "queries": len(answers),
        "unanswerable": len(others),
        "ece_first": round(expected_calibration_error(first), 4),
        "ece_all": round(expected_calibration_error(hits), 4),
        "bins_first": [_as_json(each) for each in bins_of(first)],
        "bins_all": [_as_json(each) for each in bins_of(hits)],
        "thresholds": [
            {
                "threshold": round(limit, 4),
                "kept": round(sum(each >= limit for each in best) / max(1, len(best)), 4),
                "refused": round(sum(each < limit for each in refused) / len(refused), 4) if refused else None,
            }
            for limit in (chosen, threshold)
        ],
    }


def _as_json(each: Any) -> dict[str, Any]:
    return {
        "low": each.low,
        "hits": each.hits,
        "confidence": round(each.confidence, 4),
        "relevant": round(each.relevant, 4),
    }


def _result(path: Path) -> dict[str, Any]:
    """Read what --json printed. Raises InvalidInput."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        diagram([found])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InvalidInput(f"{path} is not what chordwise reliability --json prints") from None
    return found


def _questions(path: Path, language: str | None) -> list[JudgedQuery]:
    found = []
    for number, line in read_lines(path):
        try:
            entry = json.loads(line)
            text, spoken = str(entry["text"]), entry.get("language")
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InvalidInput(f'{path}:{number} is not a JSON object with a "text"') from None
        if language in (None, spoken):
            found.append(JudgedQuery(query_id=f"{path.name}:{number}", text=text, grades={}))
    return found


def _show(found: dict[str, Any], name: str) -> None:
    screen.say(
        f"{name}: {screen.plural(found['queries'], 'query', 'queries')}, expected calibration error"
        f" {found['ece_first']:.3f} of first hits, {found['ece_all']:.3f} of all hits"
    )
    columns = ("confidence", "first hits", "mean", "relevant", "all hits", "mean ", "relevant ")
    table = screen.table("", *columns, numbers=columns)
    first, whole = ({each["low"]: each for each in found[part]} for part in ("bins_first", "bins_all"))
    for low in sorted(first.keys() | whole.keys()):
        cells = [f"{low:.1f} to {low + 0.1:.1f}"]
        for held in (first.get(low), whole.get(low)):
            shown = (
                (str(held["hits"]), f"{held['confidence']:.2f}", f"{held['relevant']:.2f}") if held else ("", "", "")
            )
            cells.extend(shown)
        table.add_row("", *cells)
    screen.stdout().print(table)
    for each in found["thresholds"]:
        refused = (
            "" if each["refused"] is None else f", refuses {each['refused']:.0%} of {found['unanswerable']} others"
        )
        screen.say(f"threshold {each['threshold']:.2f} keeps {each['kept']:.0%} of answerable questions{refused}")
