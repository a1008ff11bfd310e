"""The vectors of whole documents compared with the chunks they should be made of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from pipeline.core.means import hash_of
from pipeline.stores.alignment import ChunkRow
from pipeline.stores.document_vectors import DocumentVectorRow

UNNEEDED = "unneeded"


def wrong_document_vectors(
    whole: Sequence[DocumentVectorRow], shown: Sequence[ChunkRow], busy: Collection[tuple[str, int]], *, model: str
) -> dict[tuple[str, int], str]:
    """Return what is wrong with which generation. ``shown``: chunks by MySQL, so a lost chunk vector does not count."""
    chunks: defaultdict[tuple[str, int], list[tuple[str, bytes]]] = defaultdict(list)
    for row in shown:
        chunks[row.document_id, row.generation].append((row.chunk_id, row.content_hash))
    expected = {key: (model, hash_of(some)) for key, some in chunks.items()}
    there = {(row.document_id, row.generation): (row.model, row.content_hash) for row in whole}
    wrong = {key: "missing or stale" for key, value in expected.items() if there.get(key) != value}
    return wrong | {key: UNNEEDED for key in there if key not in expected and key not in busy}
