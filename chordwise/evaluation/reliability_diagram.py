"""The reliability diagram as a picture: SVG of the results that ``chordwise reliability --json`` prints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
_SIDE: Final = 300  # pixels of a panel
_BARS: Final = 80  # pixels of the counts below it
_LEFT, _TOP, _GAP = 56, 40, 64
_FEW: Final = 10  # hits; a bin of fewer is drawn hollow
_PANELS: Final = (("bins_first", "first hits"), ("bins_all", "first ten hits"))


def diagram(results: Sequence[Mapping[str, Any]]) -> str:
    """Return an SVG with a curve for each result: the share of relevant hits over their mean confidence, the diagonal of
    perfect calibration, and below how many hits each bin holds, on a logarithmic scale. The same for the same results."""
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
        told = (
            f"{result['collection']}: {result['queries']} queries, expected calibration error "
            f"{result['ece_first']:.3f} of first hits, {result['ece_all']:.3f} of the first ten"
        )
        parts.append(f'<rect x="{_LEFT}" y="{y - 10}" width="12" height="12" fill="{_colour(number)}"/>')
        parts.append(_text(_LEFT + 20, y, told, anchor="start"))
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
    most = max((each["hits"] for result in results for each in result[bins]), default=1)
    for number, result in enumerate(results):
        colour = _colour(number)
        points = [(left + _SIDE * each["confidence"], bottom - _SIDE * each["relevant"]) for each in result[bins]]
        parts.append(_line(points, colour))
        for (x, y), each in zip(points, result[bins], strict=True):
            fill = colour if each["hits"] >= _FEW else "#ffffff"
            told = (
                f"{result['collection']}, confidence {each['confidence']:.2f}: {each['relevant']:.2f} of {each['hits']}"
            )
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{fill}" stroke="{colour}">'
                f"<title>{escape(told)}</title></circle>"
            )
        parts.extend(_bars(result[bins], number, len(results), most, left=left, top=bottom + 4))
    return parts


def _bars(bins: Sequence[Mapping[str, Any]], number: int, of: int, most: int, *, left: int, top: int) -> list[str]:
    width = _SIDE / 10 * 0.8 / of
    parts = []
    for each in bins:
        high = _BARS * math.log1p(each["hits"]) / math.log1p(most)
        x = left + _SIDE * (each["low"] + 0.01) + number * width
        parts.append(
            f'<rect x="{x:.1f}" y="{top + _BARS - high:.1f}" width="{width:.1f}" height="{high:.1f}"'
            f' fill="{_colour(number)}" opacity="0.6"><title>{each["hits"]}</title></rect>'
        )
    return parts


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def _line(points: Sequence[tuple[float, float]], colour: str, *, dashes: str = "none") -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5" stroke-dasharray="{dashes}"/>'


def _text(x: float, y: float, words: str, *, anchor: str = "middle", weight: str = "normal") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-weight="{weight}">{escape(words)}</text>'
