"""The chunks that a host's keyword index proposes where many are alike: caps, and ties."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from pipeline.keyword_index.index_search import IndexSearch, IndexView
from pipeline.keyword_index.indexed_chunk_store import IndexedChunk, NamespaceState
from pipeline.keyword_index.local_index_store import LocalIndexReader, LocalIndexWriter
from pipeline.records import Caps, ChunkId, Namespace, TenantId

TENANT, SPACE = TenantId("acme"), Namespace("kb")
WORD, OTHER = "w" + "0" * 12, "w" + "1" * 12
SEARCH = IndexSearch(groups=[{WORD: 1.0}])
NOTHING = ("page", "page_end", "author", "type", "published_at", "story_time", "source_uri", "parent_id", "segment")


def chunk(document: str, number: int, text: str, *, words: int = 1) -> IndexedChunk:
    """Of the word, between ``words`` less one others."""
    chunk_id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{document}/{number}"))
    own = {"chunk_id": chunk_id, "namespace": SPACE, "document_id": document, "ordinal": number, "start": 0, "end": 9}
    fields = dict.fromkeys(NOTHING) | own | {"heading_path": "[]", "title": "", "tags": "[]", "metadata": "{}"}
    fields |= {"generation": 1, "token_count": 3, "updated_at": "2026-01-01", "chunk_type": "text", "chunking": "{}"}
    terms = " ".join([WORD, *[OTHER] * (words - 1)])
    stored = orjson.dumps(fields | {"reworded": 0}).decode()
    return IndexedChunk(f"{chunk_id} {SPACE} 0 0 0 {terms}".encode(), text, stored)


def index(root: Path, *commits: Iterable[IndexedChunk]) -> IndexView:
    """An index of these chunks, each commit of which makes a segment."""
    writer = LocalIndexWriter(root, TENANT)
    made = datetime(2026, 1, 1, tzinfo=UTC)
    for revision, chunks in enumerate(commits):
        state = NamespaceState(
            namespace=SPACE,
            stamp=f"{revision}@{made}@{made}",
            revision=revision,
            revised_at=made,
            created_at=made,
            chunk_count=1,
            term_count=1,
        )
        writer.replace(state, [], list(chunks))
        writer.commit()
    view = LocalIndexReader(root, TENANT).view()
    assert view is not None
    return view


def documents(view: IndexView, caps: Caps, *, limit: int = 100) -> tuple[Counter[str], bool]:
    rows, is_cut = view.within_caps(SEARCH, caps, limit=limit)
    entries = view.chunks([row.chunk_id for row in rows])
    return Counter(entry.stored().document_id for entry in entries), is_cut


@pytest.fixture
def notes() -> list[IndexedChunk]:
    """Ten documents that score less than a chunk of one word."""
    return [chunk(f"note{n}", 0, f"note {n}", words=3) for n in range(10)]


class DescribeCaps:
    @pytest.mark.parametrize("per_document", [1, 3])
    def it_finds_other_documents_behind_a_long_one(self, tmp_path, notes, per_document):
        view = index(tmp_path, [chunk("long", n, f"passage {n}") for n in range(1_500)], notes)
        found, is_cut = documents(view, Caps(per_document=per_document))
        assert found == {"long": per_document, **{f"note{n}": 1 for n in range(10)}}
        assert not is_cut

    def it_finds_other_documents_behind_several_long_ones(self, tmp_path, notes):
        long = [chunk(f"long{d}", n, f"passage {n} of {d}", words=1 + d % 2) for d in range(6) for n in range(300)]
        found, _ = documents(index(tmp_path, long, notes), Caps(per_document=1))
        assert found == {**{f"long{d}": 1 for d in range(6)}, **{f"note{n}": 1 for n in range(10)}}

    @pytest.mark.parametrize(
        "copies", [["All rights reserved."], ["保留所有权利。  ＡＢＣ", "保留所有权利。 abc"]], ids=["en", "zh"]
    )
    def it_finds_other_texts_behind_equal_ones(self, tmp_path, notes, copies):
        equal = [chunk(f"copy{n}", 0, copies[n % len(copies)]) for n in range(1_000)]
        found, is_cut = documents(index(tmp_path, equal, notes), Caps(contents=True))
        assert found.total() == 11
        assert {f"note{n}" for n in range(10)} < set(found)
        assert not is_cut

    def it_says_that_more_long_documents_may_hide_others(self, tmp_path, notes):
        long = [chunk(f"long{d}", n, f"passage {n} of {d}", words=1 + d) for d in range(40) for n in range(20)]
        found, is_cut = documents(index(tmp_path, long, notes), Caps(per_document=1), limit=20)
        assert (found.total(), is_cut) == (20, False)
        view = index(tmp_path / "more", [chunk(f"long{d}", n, f"{n}/{d}") for d in range(40) for n in range(2)])
        assert documents(view, Caps(per_document=1), limit=1_000) == (
            Counter({f"long{d}": 1 for d in range(40)}),
            False,
        )


class DescribeTies:
    def it_proposes_the_beginning_of_the_same_order_for_every_limit(self, tmp_path, notes):
        equal = [chunk(f"same{n}", 0, "the same") for n in range(1_000)]
        view = index(tmp_path, equal[:600], notes, equal[600:])
        lowest = sorted(ChunkId(line.terms.split()[0].decode()) for line in equal)
        for limit in (1, 100, 125, 250, 999):
            assert {row.chunk_id for row in view.search(SEARCH, limit=limit)} == set(lowest[:limit])
