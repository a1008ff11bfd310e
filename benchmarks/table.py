"""Plain tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence


def row(*cells: object) -> tuple[str, ...]:
    """Return cells as text; numbers keep three significant places."""
    return tuple(f"{cell:,.3g}" if isinstance(cell, float) and cell < 100 else _whole(cell) for cell in cells)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return columns as wide as their widest cell; the first aligned left, the others right."""
    widths = [max(len(line[column]) for line in (heads, *rows)) for column in range(len(heads))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (heads, *rows)
    )


def _whole(cell: object) -> str:
    return f"{cell:,.0f}" if isinstance(cell, float) else str(cell)
