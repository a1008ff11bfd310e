"""A document's text put together again from its passages."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.records import Passage


def seam(gap: int) -> str:
    """Return the separator of two parts of a text that are ``gap`` characters of white space apart."""
    return {0: "", 1: " "}.get(gap, "\n\n")


def joined(passages: Iterable[Passage]) -> str:
    """Join passages in document order without repeating overlaps; reworded passages stay whole. A gap of one character
    becomes a space, a longer one an empty line."""
    parts: list[str] = []
    written = 0  # the position in the document up to which the parts reach
    for passage in sorted(passages, key=lambda part: (part.start, -part.end)):
        if parts and passage.end <= written and not passage.reworded:
            continue
        overlap = max(0, written - passage.start) if parts and not passage.reworded else 0
        if parts and not overlap:
            parts.append(seam(passage.start - written))
        parts.append(passage.text[overlap:])
        written = max(written, passage.end)
    return "".join(parts)
