"""The curves of section `growth` as an SVG picture, without a library; deterministic."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, Final

from benchmarks.query import cpu

_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
_WIDE, _HIGH = 260, 200  # pixels of a panel
_LEFT, _TOP, _GAP = 56, 36, 72
_CELLS: Final = ("still", "one replacement a second", "tag of 10 %")
_PANELS: Final[tuple[tuple[str, Callable[[dict[str, Any]], float]], ...]] = (
    ("queries a second, 8 at a time", lambda figures: float(figures["queries_per_s"])),
    ("p95, one at a time, ms", lambda figures: float(figures["p95_ms"])),
    ("processor time a query, ms", cpu),
    ("first ten of exact BM25", lambda figures: float(figures["keyword_top_10"])),
    ("recall@10 of the vectors", lambda figures: float(figures["vector_recall_10"])),
)
_IN_A_ROW = 3


def picture(results: dict[str, Any]) -> str:
    """Return an SVG with one panel for each figure: its curves over the number of chunks, on a logarithmic scale."""
    sizes = [int(size) for size in results["sizes"]]
    rows = -(-len(_PANELS) // _IN_A_ROW)
    width, height = _LEFT + _IN_A_ROW * (_WIDE + _GAP), _TOP + rows * (_HIGH + _GAP) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' font-family="sans-serif" font-size="12" role="img">',
        "<title>Queries as a namespace grows</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for number, (name, value) in enumerate(_PANELS):
        left, top = _LEFT + number % _IN_A_ROW * (_WIDE + _GAP), _TOP + number // _IN_A_ROW * (_HIGH + _GAP)
        curves = [[value(results["sizes"][str(size)]["cells"][cell]) for size in sizes] for cell in _CELLS]
        parts += _panel(name, sizes, curves, left=left, top=top)
    for number, cell in enumerate(_CELLS):
        x, y = _LEFT + 2 * (_WIDE + _GAP), _TOP + (rows - 1) * (_HIGH + _GAP) + 20 + 22 * number
        parts.append(f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{_COLOURS[number]}"/>')
        parts.append(label(x + 20, y, cell, anchor="start"))
    return "\n".join([*parts, "</svg>", ""])


def _panel(name: str, sizes: Sequence[int], curves: Sequence[Sequence[float]], *, left: int, top: int) -> list[str]:
    bottom, most = top + _HIGH, _round_up(max(max(curve) for curve in curves))
    low, high = math.log(min(sizes)), math.log(max(sizes))
    parts = [
        label(left + _WIDE / 2, top - 10, name, weight="bold"),
        f'<rect x="{left}" y="{top}" width="{_WIDE}" height="{_HIGH}" fill="none" stroke="#999999"/>',
    ]
    parts += [label(left - 6, bottom - _HIGH * part / 4 + 4, f"{most * part / 4:g}", anchor="end") for part in range(5)]

    def x_of(size: int) -> float:
        return left + _WIDE * (0.5 if high == low else 0.06 + 0.88 * (math.log(size) - low) / (high - low))

    parts += [label(x_of(size), bottom + 18, f"{size:,}") for size in sizes]
    for colour, curve in zip(_COLOURS, curves, strict=False):
        points = [(x_of(size), bottom - _HIGH * value / most) for size, value in zip(sizes, curve, strict=True)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"><title>{value:g}</title></circle>'
            for (x, y), value in zip(points, curve, strict=True)
        ]
    return parts


def _round_up(value: float) -> float:
    """Return the least of 1, 2, 4, 5 and 10 times a power of ten that is not below ``value``; 1 for 0."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 4, 5, 10) if step * power >= value * (1 - 1e-9))


def label(x: float, y: float, words: str, *, anchor: str = "middle", weight: str = "normal") -> str:
    """Return a text of an SVG."""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-weight="{weight}">{escape(words)}</text>'
