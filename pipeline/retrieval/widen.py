"""What is read with a hit: the parent it is part of, or the text around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline.answer.result import AnswerChunk
from pipeline.database.unit_of_work import reading
from pipeline.documents.parent_store import Parents
from pipeline.documents.window_store import whole_documents, windows
from pipeline.query.request import Query
from pipeline.ranking.hits import Hydrated
from pipeline.records import ChunkId
from pipeline.resources import Resources
from pipeline.retrieval.read_texts import read_in_time


def widened(
    query: Query,
    chunks: Sequence[AnswerChunk],
    hydrated: Mapping[str, Hydrated],
    use: Resources,
) -> dict[str, str]:
    """Return the text to read for each of these hits that is to be read with more than itself.

    A child comes with its parent unless ``parents`` is false, a sentence with its window. ``window`` in a query
    replaces the document's window size, and gives chunks of every strategy a window. With ``whole_document``, the first
    hit of a document that is small enough comes with all of it. Raises Unavailable.
    """
    options, tenant_id = query.plan.context, query.tenant_id
    found = [hydrated[chunk.chunk_id] for chunk in chunks]
    parents = {} if options.parents is False else {each.chunk_id: each.parent_id for each in found if each.parent_id}
    sizes = {
        ChunkId(each.chunk_id): each.window if options.window is None else options.window
        for each in found
        if each.chunk_id not in parents
    }
    if not parents and not any(sizes.values()) and not options.whole_document:
        return {}
    firsts = {(each.namespace, each.document_id): ChunkId(each.chunk_id) for each in reversed(found)}

    def read() -> tuple[dict[ChunkId, str], dict[ChunkId, str], dict[ChunkId, str]]:
        with reading(use.mysql) as connection:
            wholes = (
                whole_documents(connection, tenant_id, list(firsts.values()), most_tokens=options.max_tokens // 2)
                if options.whole_document
                else {}
            )
            texts = Parents(connection, tenant_id).texts([ChunkId(each) for each in set(parents.values())])
            return wholes, texts, windows(connection, tenant_id, sizes)

    wholes, texts, around = read_in_time(query, use, read)
    found_texts: dict[str, str] = {str(chunk_id): text for chunk_id, text in around.items()}
    found_texts |= {child: texts[ChunkId(parent)] for child, parent in parents.items() if ChunkId(parent) in texts}
    return found_texts | {str(chunk_id): text for chunk_id, text in wholes.items()}
