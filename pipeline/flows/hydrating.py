"""The text of the best candidates, as the system of record has it now."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime

from pipeline.core.fusion import Fused
from pipeline.core.hits import Hydrated
from pipeline.core.plan import Plan
from pipeline.core.query import Brought
from pipeline.core.strategies import window_of
from pipeline.errors import Unavailable
from pipeline.flows.arrived import Arrived
from pipeline.flows.journal import Journal
from pipeline.flows.resources import Resources
from pipeline.records import ChunkId
from pipeline.stores.chunks import Chunks, StoredChunk
from pipeline.stores.work import reading

# Gateway and workers may be on different hosts: a query is taken to have begun this much earlier.
_CLOCKS_APART_S = 0.2


def hydrate(arrived: Arrived, fused: Sequence[Fused], use: Resources, journal: Journal) -> dict[str, Hydrated]:
    """The text of the best hits; what is not shown any more is not in the answer, and later hits take its place.

    A document that was replaced since the query began, perhaps more than once, is there with the chunks of one
    generation: the newest of those that were recalled.
    """
    started = time.perf_counter()
    query = arrived.query
    brought = {each.chunk_id: _brought(each) for envelope in arrived.usable.values() for each in envelope.brought}
    stored = [hit for hit in fused if hit.chunk_id not in brought]
    wanted = needed(query.plan)
    found: dict[ChunkId, StoredChunk] = {}
    position = 0
    since = datetime.fromtimestamp(query.created_at - _CLOCKS_APART_S, UTC)
    try:
        while position < len(stored) and len(found) < wanted:
            ids = [ChunkId(hit.chunk_id) for hit in stored[position : position + wanted]]
            with reading(use.mysql) as connection:
                chunks = Chunks(connection, query.tenant_id)
                found |= chunks.hydrate(ids, namespaces=query.namespaces, since=since)
            position += wanted
    except Unavailable as error:
        journal.lost("hydrate", error.code, "the text of the hits could not be read")
    journal.took("hydrate", started)
    newest: dict[tuple[str, str], int] = {}
    for chunk in found.values():
        document = (chunk.namespace, chunk.document_id)
        newest[document] = max(chunk.generation, newest.get(document, 0))
    return brought | {
        chunk_id: _hydrated(chunk)
        for chunk_id, chunk in found.items()
        if chunk.generation == newest[chunk.namespace, chunk.document_id]
    }


def needed(plan: Plan) -> int:
    """How many candidates have to be read to be sure of the answer: those that may be returned, and those that what
    follows fusion may lift into it."""
    return max(plan.top_k, plan.rerank.top_n if plan.rerank.enabled else 0)


def _brought(passage: Brought) -> Hydrated:
    return Hydrated(
        chunk_id=passage.chunk_id,
        document_id=passage.document_id,
        namespace=passage.namespace,
        title=passage.title,
        text=passage.text,
        metadata=passage.metadata,
    )


def _segment_fields(chunk: StoredChunk) -> dict[str, object]:
    segment = chunk.segment
    if segment is None:
        return {}
    return {
        "chapter_id": segment.chapter_id,
        "entity_names": list(segment.entity_names),
        "summary": segment.summary,
    }


def _hydrated(chunk: StoredChunk) -> Hydrated:
    fields = {
        "type": chunk.type,
        "author": chunk.author,
        "tags": list(chunk.tags),
        "published_at": chunk.published_at,
        "story_time": chunk.story_time,
        "updated_at": chunk.updated_at,
        "source_uri": chunk.source_uri,
        "generation": chunk.generation,
        "position": chunk.ordinal,
        "heading_path": list(chunk.heading_path),
        "chunk_type": None if chunk.chunk_type == "parent" else chunk.chunk_type,
        "parent_id": chunk.parent_id,
        **_segment_fields(chunk),
        "page": chunk.page,
        "start": chunk.start,
        "end": chunk.end,
    }
    return Hydrated(
        chunk_id=chunk.chunk_id,
        document_id=chunk.document_id,
        namespace=chunk.namespace,
        title=chunk.title,
        text=chunk.text,
        heading_path=chunk.heading_path,
        published_at=chunk.published_at,
        updated_at=chunk.updated_at,
        story_time=chunk.story_time,
        metadata={**chunk.metadata, **{name: value for name, value in fields.items() if value not in (None, [])}},
        parent_id=chunk.parent_id,
        window=window_of(chunk.chunking),
    )
