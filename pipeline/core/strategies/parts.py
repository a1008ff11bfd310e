"""Cutting a stretch of a document as if it were one, with offsets that still count from its beginning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pipeline.core.chunking import chunks, touched
from pipeline.records import Chunking, Parsed, Passage, Section


def stretch(parsed: Parsed, start: int, end: int) -> Parsed:
    """``parsed.text[start:end]`` with the sections that lie in it."""
    sections = tuple(
        Section(
            start=max(section.start, start) - start,
            end=min(section.end, end) - start,
            heading_path=section.heading_path,
            page=section.page,
        )
        for section in touched(parsed.sections, start, end)
    )
    return Parsed(text=parsed.text[start:end], sections=sections, title=parsed.title)


def cut_stretch(parsed: Parsed, start: int, end: int, chunking: Chunking) -> Iterator[Passage]:
    """The sentences of ``parsed.text[start:end]`` in passages, as `chunk` packs them."""
    plain = Chunking(max_tokens=chunking.max_tokens, overlap=chunking.overlap)
    for passage in chunks(stretch(parsed, start, end), plain):
        yield replace(passage, start=passage.start + start, end=passage.end + start)
