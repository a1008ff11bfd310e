"""Cutting a stretch of a document as if it were one, with offsets that still count from its beginning."""

from __future__ import annotations

from dataclasses import replace

from pipeline.core.chunking import chunk
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
        for section in parsed.sections
        if section.start < end and section.end > start
    )
    return Parsed(text=parsed.text[start:end], sections=sections, title=parsed.title)


def cut_stretch(parsed: Parsed, start: int, end: int, chunking: Chunking) -> list[Passage]:
    """The sentences of ``parsed.text[start:end]`` in passages, as `chunk` packs them."""
    plain = Chunking(max_tokens=chunking.max_tokens, overlap=chunking.overlap)
    return [
        replace(passage, start=passage.start + start, end=passage.end + start)
        for passage in chunk(stretch(parsed, start, end), plain)
    ]
