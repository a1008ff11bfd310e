"""The JSON forms of a passage and of an encoding, the same in every response."""

from typing import Any

from pipeline.records import Encoding, Passage, Segment


def passage_as_json(passage: Passage) -> dict[str, Any]:
    """Return a passage with its position and its structure."""
    segment = passage.segment or Segment()
    return {
        "text": passage.text,
        "heading_path": passage.heading_path,
        "page": passage.page,
        "page_start": passage.page,
        "page_end": passage.page if passage.page_end is None else passage.page_end,
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


def encoding_as_json(encoding: Encoding | None) -> dict[str, Any] | None:
    """Return an encoding with its probability and its warning; None for a format that is no text."""
    if encoding is None or encoding.name is None:
        return None
    return {"name": encoding.name, "probability": encoding.probability, "warning": encoding.warning}
