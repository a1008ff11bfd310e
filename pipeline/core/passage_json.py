"""The JSON form of a passage, the same in every response."""

from __future__ import annotations

from typing import Any

from pipeline.records import Passage, Segment


def passage_as_json(passage: Passage) -> dict[str, Any]:
    """Return a passage with its position and its structure."""
    segment = passage.segment or Segment()
    return {
        "text": passage.text,
        "heading_path": passage.heading_path,
        "page": passage.page,
        "start": passage.start,
        "end": passage.end,
        "token_count": passage.token_count,
        "chunk_type": passage.chunk_type,
        "chunk_index": passage.index,
        "chapter_id": segment.chapter_id,
        "story_time": segment.story_time,
        "entity_names": segment.entity_names,
        "summary": segment.summary,
        "attributes": segment.attributes,
    }
