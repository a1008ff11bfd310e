"""Reliability of confidence: its agreement with relevance, its power to tell questions apart, and the diagram."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from chordwise.api.queries import QueryKeywords
from chordwise.async_client import AsyncChordwise
from chordwise.contract.answer import sureness
from chordwise.errors import ChordwiseError
from chordwise.evaluation.ask import answers_of
from chordwise.evaluation.collection import JudgedQuery

BINS = 10
_TOP_K = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One hit: its confidence in [0, 1], None where nothing can be told, whether its document is relevant, and its
    position, counted from 1."""

    confidence: float | None
    relevant: bool
    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Hits with confidence in [``low``, ``low`` + 0.1): their number, mean confidence and share of relevant ones."""

    low: float
    hits: int
    confidence: float
    relevant: float


def bins_of(hits: Sequence[Judged]) -> list[Bin]:
    """Return the reliability diagram of the hits with a confidence: the bins that hold any, from the least to the most
    confident."""
    by_bin: dict[int, list[tuple[float, bool]]] = {}
    for hit in hits:
        if hit.confidence is not None:
            number = min(BINS - 1, int(hit.confidence * BINS))
            by_bin.setdefault(number, []).append((hit.confidence, hit.relevant))
    return [
        Bin(
            low=number / BINS,
            hits=len(members),
            confidence=sum(confidence for confidence, _ in members) / len(members),
            relevant=sum(relevant for _, relevant in members) / len(members),
        )
        for number, members in sorted(by_bin.items())
    ]


def expected_calibration_error(hits: Sequence[Judged]) -> float:
    """Return the mean of ``|relevant - confidence|`` over the ten bins, each weighted by its hits; 0 without hits that have
    a confidence (Naeini, Cooper and Hauskrecht, Obtaining well calibrated probabilities using Bayesian binning, AAAI 2015)."""
    bins = bins_of(hits)
    total = max(1, sum(group.hits for group in bins))
    return sum(group.hits * abs(group.relevant - group.confidence) for group in bins) / total


def threshold_that_keeps(best: Sequence[float], share: float) -> float:
    """Return the highest threshold that at least ``share`` of ``best`` reach; 0 if ``best`` is empty."""
    ordered = sorted(best)
    return ordered[int((1 - share) * len(ordered))] if ordered else 0.0


async def ask_judged(
    client: AsyncChordwise,
    queries: Sequence[JudgedQuery],
    *,
    options: QueryKeywords,
    on_answer: Callable[[int], None],
) -> list[list[Judged]]:
    """Ask every query for ten chunks and judge them; a query without relevant documents judges all of them not relevant.
    ``options`` are those of ``Chordwise.query``. In the order of ``queries``. Raises ChordwiseError."""
    asked: QueryKeywords = {"top_k": _TOP_K, **options}
    answers = await answers_of(client, [(query.text, asked) for query in queries], on_answer)
    if None in answers:
        raise ChordwiseError(f"{answers.count(None)} of {len(answers)} queries had no answer")
    return [
        [
            Judged(confidence=hit.confidence, relevant=query.grades.get(hit.document_id, 0) > 0, rank=rank)
            for rank, hit in enumerate(answer.chunks if answer else (), start=1)
        ]
        for query, answer in zip(queries, answers, strict=True)
    ]


def best_of(answers: Sequence[Sequence[Judged]]) -> list[float]:
    """Return the highest confidence of each answer as thresholds compare it, 0 for an empty one."""
    return [max((sureness(hit.confidence) for hit in answer), default=0.0) for answer in answers]


_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
_SIDE: Final = 300  # pixels of a panel
_BARS: Final = 80  # pixels of the counts below it
_LEFT, _TOP, _GAP = 56, 40, 64
_FEW: Final = 10  # hits; a bin of fewer is drawn hollow
_PANELS: Final = (("bins_first", "first hits"), ("bins_all", "first ten hits"))


def diagram(results: Sequence[Mapping[str, Any]]) -> str:
    """Return an SVG with a curve for each result: the share of relevant hits over their mean confidence, the diagonal of
    perfect calibration, and below how many hits each bin holds, on a logarithmic scale. Deterministic."""
    width = _LEFT + len(_PANELS) * (_SIDE + _GAP)
    height = _TOP + _SIDE + _BARS + 70 + 20 * len(results)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' font-family="sans-serif" font-size="12" role="img">',
        "<title>Confidence of hits and the share of them that is relevant</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for number, (bins, name) in enumerate(_PANELS):
        parts.extend(_panel(results, bins, name, left=_LEFT + number * (_SIDE + _GAP)))
    for number, result in enumerate(results):
        y = _TOP + _SIDE + _BARS + 64 + 20 * number
        legend = (
            f"{result['collection']}: {result['queries']} queries, expected calibration error "
            f"{result['ece_first']:.3f} of first hits, {result['ece_all']:.3f} of the first ten"
        )
        parts.append(f'<rect x="{_LEFT}" y="{y - 10}" width="12" height="12" fill="{_colour(number)}"/>')
        parts.append(_text(_LEFT + 20, y, legend, anchor="start"))
    return "\n".join([*parts, "</svg>", ""])


def _panel(results: Sequence[Mapping[str, Any]], bins: str, name: str, *, left: int) -> list[str]:
    bottom = _TOP + _SIDE
    parts = [
        _text(left + _SIDE / 2, _TOP - 14, name, weight="bold"),
        f'<rect x="{left}" y="{_TOP}" width="{_SIDE}" height="{_SIDE}" fill="none" stroke="#999999"/>',
        _line([(left, bottom), (left + _SIDE, _TOP)], "#999999", dashes="4 4"),
        _text(left + _SIDE / 2, bottom + _BARS + 36, "mean confidence of a bin; bars: hits in it, logarithmic"),
    ]
    for tenth in range(0, 11, 2):
        x, y = left + _SIDE * tenth / 10, bottom - _SIDE * tenth / 10
        parts.append(_text(x, bottom + _BARS + 18, f"{tenth / 10:.1f}"))
        parts.append(_text(left - 6, y + 4, f"{tenth / 10:.1f}", anchor="end"))
    if bins == _PANELS[0][0]:
        middle = _TOP + _SIDE / 2
        parts.append(
            f'<text x="16" y="{middle:g}" transform="rotate(-90 16 {middle:g})" text-anchor="middle">'
            "share that is relevant</text>"
        )
    most = max((group["hits"] for result in results for group in result[bins]), default=1)
    for number, result in enumerate(results):
        colour = _colour(number)
        points = [(left + _SIDE * group["confidence"], bottom - _SIDE * group["relevant"]) for group in result[bins]]
        parts.append(_line(points, colour))
        for (x, y), group in zip(points, result[bins], strict=True):
            fill = colour if group["hits"] >= _FEW else "#ffffff"
            level = f"{result['collection']}, confidence {group['confidence']:.2f}"
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{fill}" stroke="{colour}">'
                f"<title>{escape(level)}: {group['relevant']:.2f} of {group['hits']}</title></circle>"
            )
        parts.extend(_bars(result[bins], number, len(results), most, left=left, top=bottom + 4))
    return parts


def _bars(bins: Sequence[Mapping[str, Any]], number: int, of: int, most: int, *, left: int, top: int) -> list[str]:
    width = _SIDE / 10 * 0.8 / of
    parts = []
    for group in bins:
        height = _BARS * math.log1p(group["hits"]) / math.log1p(most)
        x = left + _SIDE * (group["low"] + 0.01) + number * width
        parts.append(
            f'<rect x="{x:.1f}" y="{top + _BARS - height:.1f}" width="{width:.1f}" height="{height:.1f}"'
            f' fill="{_colour(number)}" opacity="0.6"><title>{group["hits"]}</title></rect>'
        )
    return parts


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def _line(points: Sequence[tuple[float, float]], colour: str, *, dashes: str = "none") -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5" stroke-dasharray="{dashes}"/>'


def _text(x: float, y: float, words: str, *, anchor: str = "middle", weight: str = "normal") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-weight="{weight}">{escape(words)}</text>'
