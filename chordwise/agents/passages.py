"""The flat metadata of a hit for other libraries."""

from __future__ import annotations

from typing import Any, Final

from chordwise.api.queries import Hit
from chordwise.resource import given

# Positions, scores and ids: useful to programs, noise in the prompt of a language model.
TECHNICAL: Final = (
    *("chunk_id", "document_id", "parent_id", "namespace", "generation", "position", "start", "end"),
    *("query_id", "score", "confidence", "channel", "channels", "reason"),
)


def passage_metadata(hit: Hit, query_id: str) -> dict[str, Any]:
    """Return the document's own metadata, overlaid with fields of the hit.

    ``channel`` is the hit's ``source``, ``channels`` has the rank in each channel that recalled the chunk. ``source``,
    which many chains cite, is the document's own value, else its address, else its id. ``query_id`` and ``chunk_id`` are
    what ``Chordwise.feedback`` asks for.
    """
    fields = given(
        document_id=hit.document_id,
        title=hit.title,
        chunk_id=hit.chunk_id,
        namespace=hit.namespace,
        query_id=query_id,
        score=hit.score,
        confidence=hit.confidence,
        channel=hit.source,
        channels={source.channel: source.rank for source in hit.sources if source.rank is not None},
        reason=hit.reason,
    )
    source = hit.metadata.get("source") or hit.metadata.get("source_uri") or hit.document_id
    return {**hit.metadata, **fields, "source": source}
