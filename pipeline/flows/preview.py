"""What a document would become, without storing anything of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.core.assembling import in_order
from pipeline.core.strategies import cut, embedding_text_of
from pipeline.errors import DocumentTooLarge, EmptyDocument
from pipeline.flows.resources import Resources
from pipeline.records import Chunking, Passage


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The chunks a document would have. ``embedded``: what would be embedded for each."""

    title: str | None
    chunking: Chunking
    passages: Sequence[Passage]
    embedded: Sequence[str]
    parents: Sequence[Passage]


def preview(
    body: bytes, *, media_type: str, filename: str | None, title: str | None, chunking: Chunking, use: Resources
) -> Preview:
    """Parse and cut as ingestion would, within the same limits. Raises what would park the document."""
    parsed = use.parser.parse(body, media_type=media_type, filename=filename)
    found = cut(parsed, chunking)
    passages = in_order(found.passages)
    if not passages:
        raise EmptyDocument("the document has no text to index")
    limit = use.settings.max_chunks_per_document
    if len(passages) > limit:
        raise DocumentTooLarge(f"the document makes {len(passages)} chunks; this installation takes {limit}")
    title = title or parsed.title
    return Preview(
        title=title,
        chunking=chunking,
        passages=passages,
        embedded=[embedding_text_of(passage, title, chunking.strategy) for passage in passages],
        parents=found.parents,
    )
