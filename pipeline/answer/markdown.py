"""An answer's chunks as Markdown, for tools that hand them on as text."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.answer.result import AnswerChunk


def format_markdown(chunks: Sequence[AnswerChunk]) -> str:
    """Each chunk under a numbered heading with its title, then its text, then a line that says where it is from; empty
    for no chunks. Nothing is left out and nothing is asked for: a budget and wider text are the context's business."""
    return "\n\n".join(_section(place, chunk) for place, chunk in enumerate(chunks, start=1))


def _section(place: int, chunk: AnswerChunk) -> str:
    title = " ".join((chunk.title or chunk.document_id).split())
    page, uri = chunk.metadata.get("page"), chunk.metadata.get("source_uri")
    source = [f"`{chunk.namespace}/{chunk.document_id}`"]
    source += [pages_of(page, chunk.metadata.get("page_end"))] if isinstance(page, int) else []
    source += [uri] if isinstance(uri, str) and uri else []
    return f"### {place}. {title}\n\n{chunk.text.strip()}\n\n> {' · '.join(source)} · score {chunk.score:.3f}"


def pages_of(first: int, last: object) -> str:
    """Return the pages of a passage as text: `page 3` or `pages 3-4`."""
    return f"pages {first}-{last}" if isinstance(last, int) and last > first else f"page {first}"
