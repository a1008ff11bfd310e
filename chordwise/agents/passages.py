"""A hit as other libraries know passages: a text, an id, and flat metadata."""

from __future__ import annotations

from typing import Any, Final

from chordwise.api.queries import Hit

# Where a hit is and how it was found. Of use to programs; in the prompt of a language model they are noise.
TECHNICAL: Final = (
    *("chunk_id", "document_id", "parent_id", "namespace", "generation", "position", "start", "end"),
    *("query_id", "score", "confidence", "channel", "channels", "reason"),
)


def passage_metadata(hit: Hit, query_id: str) -> dict[str, Any]:
    """The document's own metadata with what is known of the hit on top.

    ``channel`` is the strongest one and ``channels`` has the rank in each that recalled the chunk. ``source``, which many
    chains cite, is the document's own value, else its address, else its id. ``query_id`` and ``chunk_id`` are what
    ``Chordwise.feedback`` asks for.
    """
    found = {
        "document_id": hit.document_id,
        "title": hit.title,
        "chunk_id": hit.chunk_id,
        "namespace": hit.namespace,
        "query_id": query_id,
        "score": hit.score,
        "confidence": hit.confidence,
        "channel": hit.source,
        "channels": {each.channel: each.rank for each in hit.sources if each.rank is not None},
        "reason": hit.reason,
    }
    source = hit.metadata.get("source") or hit.metadata.get("source_uri") or hit.document_id
    return {**hit.metadata, **{name: value for name, value in found.items() if value is not None}, "source": source}
