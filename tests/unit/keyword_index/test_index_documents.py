"""Chunk ids in the columns of a host's keyword index."""

from __future__ import annotations

from pipeline.keyword_index.index_search import chunk_id_bytes


def it_packs_ids_as_postgresql_reads_them_and_leaves_out_documents_without_one():
    highs, lows = [-(2**63), 2**63 - 1, None, -1], [2**63 - 1, -(2**63), 5, 0]
    assert [each.hex() for each in chunk_id_bytes(highs, lows)] == [
        "0" * 16 + "f" * 16,
        "f" * 16 + "0" * 16,
        "7" + "f" * 15 + "8" + "0" * 15,
    ]
    assert chunk_id_bytes([], []) == []
