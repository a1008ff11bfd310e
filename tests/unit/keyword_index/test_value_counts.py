"""Values counted by a host's keyword index are those that Python counts one by one."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from pipeline.filters.index_filters import clause_of, listed_values, sortable_values, value_of
from pipeline.filters.python_filters import unmet
from pipeline.filters.used_fields import Counts, is_countable, plain_number, values_of
from pipeline.keyword_index.index_search import IndexSearch, IndexView
from pipeline.keyword_index.indexed_chunk_store import IndexedChunk, NamespaceState
from pipeline.keyword_index.local_index_store import LocalIndexWriter
from pipeline.records import ChunkId, Comparison, DocumentFields, DocumentId, Filters, Namespace, TenantId

SPACE, MADE = Namespace("kb"), datetime(2026, 1, 1, tzinfo=UTC)
WORD, OTHER = "w" + "1" * 12, "w" + "2" * 12
FIELDS = ("type", "author", "tags", "metadata.k", "metadata.点.点")
HELD: list[DocumentFields] = [
    DocumentFields(type="manual", author="Anna", tags=("hr", "人事"), metadata={"k": "a", "点.点": 1}),
    DocumentFields(type="manual", tags=("hr",), metadata={"k": ["a", "b", "a"], "点.点": 1.0}),
    DocumentFields(type="手册", metadata={"k": True, "点.点": "1"}),
    DocumentFields(type="手册", author="Anna ", metadata={"k": 1, "点.点": [1, [2]]}),
    DocumentFields(metadata={"k": "长" * 30, "点.点": None}),
    DocumentFields(metadata={"k": "x" * 201, "点.点": {"k": 1}}),
    DocumentFields(metadata={"k": 2**60, "点.点": -0.5}),
    DocumentFields(metadata={"k": "", "点.点": ""}),
    DocumentFields(metadata={"k": "a" * 64}),
    DocumentFields(metadata={"k": "a" * 63}),
]


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> IndexView:
    writer = LocalIndexWriter(tmp_path_factory.mktemp("index"), TenantId("acme"))
    for deleted in (True, False):
        chunks = [chunk(number, WORD if number % 3 else OTHER) for number in range(30)]
        chunks += [chunk(number, WORD) for number in range(30, 40)] if deleted else []
        state = NamespaceState(
            namespace=SPACE, stamp="1", revision=1, revised_at=MADE, created_at=MADE, chunk_count=30, term_count=30
        )
        writer.replace(state, None, chunks)
        writer.commit()
    view = writer.view
    writer.close()
    return view


def chunk_id_of(number: int) -> ChunkId:
    return ChunkId(str(uuid.uuid5(uuid.NAMESPACE_OID, str(number))))


def chunk(number: int, word: str) -> IndexedChunk:
    held = HELD[number % len(HELD)]
    fields = {
        **dict.fromkeys(("page", "page_end", "published_at", "story_time", "source_uri", "parent_id")),
        **{"chunk_id": chunk_id_of(number), "namespace": SPACE, "document_id": f"d{number}", "generation": 1},
        **{"ordinal": number, "heading_path": "[]", "start": 0, "end": 9, "token_count": 3, "title": ""},
        **{
            "author": held.author,
            "type": held.type,
            "tags": json.dumps(held.tags),
            "metadata": json.dumps(held.metadata),
        },
        **{"updated_at": "2026-01-01", "chunk_type": "text", "segment": None, "chunking": "{}", "reworded": 0},
    }
    return IndexedChunk(f"{chunk_id_of(number)} {SPACE} 0 0 0 {word}".encode(), "text", json.dumps(fields))


def counted(numbers: list[int], field: str) -> Counts:
    held = (HELD[number % len(HELD)] for number in numbers)
    return Counter((type(value), value) for fields in held for value in values_of(fields, field))


@pytest.mark.parametrize(
    "filters", [Filters(), Filters(type="手册"), Filters(where=Comparison(key="k", operator="has", value="a"))]
)
@pytest.mark.parametrize("named", [[], [0, 3, 35]])
def it_counts_the_chunks_that_hold_a_word_or_are_named_and_pass_the_filters(view, filters, named):
    clause = clause_of(filters)
    assert clause is not None
    search = IndexSearch(groups=[{WORD: 1.0}], clause=clause, without=[(SPACE, DocumentId("d4"))])
    total, counts = view.count_values(search, [chunk_id_of(number) for number in named], FIELDS)
    numbers = [
        number
        for number in range(30)
        if (number % 3 or number in named) and number != 4 and unmet(filters, HELD[number % len(HELD)]) is None
    ]
    assert total == len(numbers)
    assert counts == [(counted(numbers, field), 0) for field in FIELDS]


def it_counts_nothing_without_words_and_chunks(view):
    assert view.count_values(IndexSearch(groups=[]), [], FIELDS) == (0, [(Counter(), 0) for _ in FIELDS])


VALUES: Any = some.recursive(
    some.text(max_size=70)
    | some.integers(-(2**62), 2**62)
    | some.floats(allow_nan=False, allow_infinity=False)
    | some.booleans(),
    lambda inner: some.lists(inner, max_size=3),
    max_leaves=4,
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(some.dictionaries(some.sampled_from(["k", "点"]), VALUES))
def it_stores_every_countable_value_once(metadata):
    fields = DocumentFields(metadata=metadata)
    listed, sortable = listed_values(fields), sortable_values(metadata)
    for key in metadata:
        stored = [json.loads(value) for value in listed.get(f"metadata.{key}", [])]
        back = value_of(sortable[key]) if key in sortable else None
        stored += [back] if is_countable(back) else []
        expected = values_of(fields, f"metadata.{key}")
        assert Counter(map(repr, map(plain_number, stored))) == Counter(map(repr, expected))
