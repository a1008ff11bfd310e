"""``chordwise reliability``: agreement of confidence with judgements, and the effect of a threshold."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from chordwise.api.files import read_lines
from chordwise.api.queries import QueryKeywords
from chordwise.cli import screen
from chordwise.cli.quality.evaluate_command import Folder, Limit, ProfileOption, fill, run_queries
from chordwise.errors import ChordwiseError, InvalidInput
from chordwise.evaluation.collection import JudgedQuery, read_collection
from chordwise.evaluation.reliability import (
    Bin,
    Judged,
    ask_judged,
    best_of,
    bins_of,
    diagram,
    expected_calibration_error,
    threshold_that_keeps,
)


def reliability(
    folder: Folder,
    namespace: Annotated[str, Option("--namespace", "-n", help="Namespace of its documents; filled if empty.")],
    unanswerable: Annotated[
        Path | None,
        Option("--unanswerable", exists=True, dir_okay=False, help='Questions without an answer: {"text": …} lines.'),
    ] = None,
    language: Annotated[str | None, Option("--language", help='Of these, only lines with this "language".')] = None,
    profile: ProfileOption = None,
    method: Annotated[str | None, Option("--method", help="hybrid, full_text or semantic.")] = None,
    keep: Annotated[
        float, Option("--keep", min=0, max=1, help="The share of answerable questions that the threshold must keep.")
    ] = 0.95,
    threshold: Annotated[float, Option("--threshold", min=0, max=1, help="Report this threshold as well.")] = 0.4,
    limit: Limit = None,
    max_error: Annotated[
        float | None, Option("--max-error", min=0, max=1, help="Exit with 1 above this calibration error.")
    ] = None,
    picture: Annotated[
        Path | None, Option("--diagram", dir_okay=False, help="Write the reliability diagram here, as SVG.")
    ] = None,
    beside: Annotated[
        list[Path] | None,
        Option("--beside", exists=True, dir_okay=False, help="Also draw the --json output of another collection."),
    ] = None,
) -> None:
    """Measure how reliable the confidence of answers is, on a judged collection.

    DIR is a folder as for eval. Every query is asked once for ten chunks, without reranking. Printed are the expected
    calibration error of the first hits and of all, and the reliability diagram: the share of relevant
    hits at each level of confidence; --diagram draws it. Hits without a confidence count apart. With
    --unanswerable also how many questions a threshold keeps and refuses.
    """
    collection = read_collection(folder)
    queries = collection.queries[:limit]
    other_results = [_read_result(path) for path in beside or ()]
    questions = [*queries, *([] if unanswerable is None else _read_questions(unanswerable, language))]
    with screen.connect() as client, screen.Ticker() as ticker:
        fill(client, collection, namespace, collection.count()[0], ticker)
    options: QueryKeywords = {"namespace": namespace, "profile": profile, "method": method, "rerank": False}
    answers = run_queries(
        lambda client, on_answer: ask_judged(client, questions, options=options, on_answer=on_answer),
        len(questions),
    )
    figures = _measure(answers[: len(queries)], answers[len(queries) :], keep=keep, threshold=threshold)
    result = {"collection": collection.name, "namespace": namespace, **figures}
    if picture is not None:
        picture.write_text(diagram([*other_results, result]), encoding="utf-8")
    if screen.as_json():
        screen.print_json(result)
    else:
        _show(result)
    if max_error is not None and result["ece_first"] > max_error:
        raise ChordwiseError(f"the calibration error of first hits is {result['ece_first']:.3f}, above {max_error:g}")


def _measure(
    answers: Sequence[Sequence[Judged]], others: Sequence[Sequence[Judged]], *, keep: float, threshold: float
) -> dict[str, Any]:
    hits = list(chain.from_iterable(answers))
    first = [hit for hit in hits if hit.rank == 1]
    best, refused = best_of(answers), best_of(others)
    chosen = threshold_that_keeps(best, keep)
    return {
        "queries": len(answers),
        "unanswerable": len(others),
        "untold": round(sum(hit.confidence is None for hit in first) / max(1, len(first)), 4),
        "ece_first": round(expected_calibration_error(first), 4),
        "ece_all": round(expected_calibration_error(hits), 4),
        "bins_first": _as_json(bins_of(first)),
        "bins_all": _as_json(bins_of(hits)),
        "thresholds": [
            {
                "threshold": round(limit, 4),
                "kept": round(sum(confidence >= limit for confidence in best) / max(1, len(best)), 4),
                "refused": round(sum(confidence < limit for confidence in refused) / len(refused), 4)
                if refused
                else None,
            }
            for limit in (chosen, threshold)
        ],
    }


def _as_json(bins: list[Bin]) -> list[dict[str, Any]]:
    return [{**asdict(row), "confidence": round(row.confidence, 4), "relevant": round(row.relevant, 4)} for row in bins]


def _read_result(path: Path) -> dict[str, Any]:
    try:
        result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        diagram([result])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InvalidInput(f"{path} is not what chordwise reliability --json prints") from None
    return result


def _read_questions(path: Path, language: str | None) -> list[JudgedQuery]:
    questions = []
    for number, line in read_lines(path):
        try:
            entry = json.loads(line)
            text, language_of_entry = str(entry["text"]), entry.get("language")
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InvalidInput(f'{path}:{number} is not a JSON object with a "text"') from None
        if language in (None, language_of_entry):
            questions.append(JudgedQuery(query_id=f"{path.name}:{number}", text=text, grades={}))
    return questions


def _show(result: dict[str, Any]) -> None:
    screen.say(
        f"{result['collection']}: {screen.plural(result['queries'], 'query', 'queries')}, expected calibration error"
        f" {result['ece_first']:.3f} of first hits, {result['ece_all']:.3f} of all hits; {result['untold']:.0%} of the first"
        " hits have no confidence"
    )
    columns = ("confidence", "first hits", "mean", "relevant", "all hits", "mean ", "relevant ")
    by_low = [{row["low"]: row for row in result[part]} for part in ("bins_first", "bins_all")]
    rows = (
        ("", f"{low:.1f} to {low + 0.1:.1f}", *chain.from_iterable(_cells(rows.get(low)) for rows in by_low))
        for low in sorted(set().union(*by_low))
    )
    screen.print_table(("", *columns), rows, numbers=columns)
    for row in result["thresholds"]:
        others = f"{result['unanswerable']} others"
        refused = "" if row["refused"] is None else f", refuses {row['refused']:.0%} of {others}"
        screen.say(f"threshold {row['threshold']:.2f} keeps {row['kept']:.0%} of answerable questions{refused}")


def _cells(row: dict[str, Any] | None) -> tuple[str, str, str]:
    return (str(row["hits"]), f"{row['confidence']:.2f}", f"{row['relevant']:.2f}") if row else ("", "", "")
