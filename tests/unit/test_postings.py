"""Postings in memory against the rows they were made of: the same chunks, the same question, the same scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.core.bm25 import Collection
from pipeline.core.dictionary import Asked, Unit
from pipeline.core.keyword_scoring import coverage, score, weigh
from pipeline.core.matching import FieldWeights, IndexRows
from pipeline.core.postings import Postings, PostingsBuilder, TooManyPlaces, highest
from pipeline.core.terms import Tokenizer
from pipeline.records import ChunkId, FieldTerms, Namespace, Scope, TenantId

TERMS = "abcdefgh"  # the last of which no chunk holds
_TOKENIZER = Tokenizer(Scope(tenant_id=TenantId("t"), namespace=Namespace("n")))
TOKENS = {term: _TOKENIZER.token(term) for term in TERMS}

bodies = st.lists(st.lists(st.sampled_from(TERMS[:-1]), max_size=20), max_size=12)
run = st.lists(st.sampled_from(TERMS), min_size=1, max_size=3).map(tuple)
units = st.lists(st.lists(run, min_size=1, max_size=3), min_size=1, max_size=5)
phrases = st.lists(st.lists(st.sampled_from(TERMS), min_size=2, max_size=4).map(tuple), max_size=2)
weight = st.one_of(st.just(1.0), st.floats(0, 100))
weights = st.builds(FieldWeights, title=weight, body=st.floats(0.01, 100), summary=weight, entity_names=weight)


@st.composite
def chunks(draw) -> tuple[list[ChunkId], list[list[str]], list[FieldTerms]]:
    """Ids, terms and fields of some chunks."""
    documents = draw(bodies)
    parts = [draw(st.tuples(*[st.integers(0, len(document) // 3)] * 3)) for document in documents]
    fields = [FieldTerms(title=title, summary=summary, entity_names=names) for title, summary, names in parts]
    ids = [ChunkId(str(draw(st.uuids()))) for _ in documents]
    return list(dict.fromkeys(ids)), documents[: len(set(ids))], fields[: len(set(ids))]


def packed(documents: list[list[str]]) -> list[bytes]:
    return [" ".join(TOKENS[term] for term in document).encode() for document in documents]


def postings(ids: list[ChunkId], documents: list[list[str]], fields: list[FieldTerms], *, at_once: int = 5) -> Postings:
    builder = PostingsBuilder()
    for start in range(0, len(ids), at_once):
        some = slice(start, start + at_once)
        builder.add(ids[some], packed(documents[some]), fields[some])
    return builder.build()


def ordered(scores: dict[ChunkId, float], count: int) -> list[ChunkId]:
    """As the channel orders them."""
    best = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))
    return [chunk_id for chunk_id, scored in best if scored > 0][:count]


class DescribePostings:
    @given(chunks(), units, phrases, weights, st.integers(1, 6), st.integers(1, 15))
    def it_scores_and_orders_as_rows_do(self, some, asked, said, fields, at_once, count):
        ids, documents, parts = some
        index, rows = postings(*some, at_once=at_once), IndexRows(packed(documents), parts)
        collection = Collection(
            chunk_count=len(documents),
            term_count=sum(map(len, documents)),
            chunk_frequency={term: sum(term in document for document in documents) for term in TERMS},
        )
        question = Asked(units=tuple(Unit(ways=tuple(ways)) for ways in asked), phrases=tuple(said))
        weighed = weigh(question, collection)
        expected = dict(zip(ids, score(weighed, rows, TOKENS, fields).tolist(), strict=True))
        scores = score(weighed, index, TOKENS, fields)
        found = {ChunkId(each.decode()): scored for each, scored in zip(index.chunk_ids, scores, strict=True)}
        assert found == pytest.approx(expected, abs=1e-9)
        assert index.ids(highest(scores, count)) == ordered(expected, count)

    @given(chunks())
    def it_knows_the_statistics_of_its_chunks(self, some):
        ids, documents, _ = some
        index = postings(*some)
        assert index.term_count == sum(map(len, documents))
        assert index.chunk_ids.tolist() == sorted(each.encode() for each in ids)
        for term in TERMS:
            assert index.chunk_frequency(TOKENS[term]) == sum(term in document for document in documents)
            assert len(index.occurrences(TOKENS[term])) == sum(document.count(term) for document in documents)
        assert index.byte_count >= 4 * index.term_count

    @given(chunks(), st.lists(st.sampled_from(TERMS), min_size=2, max_size=4))
    def it_finds_runs_within_a_chunk_only(self, some, said):
        _, documents, _fields = some
        index = postings(*some)
        _, counted = index.frequency(index.runs([TOKENS[term] for term in said]), FieldWeights())
        starts = [range(len(document)) for document in documents]
        whole = [
            sum(document[place : place + len(said)] == said for place in places)
            for document, places in zip(documents, starts, strict=True)
        ]
        assert sorted(filter(None, counted.tolist())) == sorted(filter(None, whole))

    @given(chunks(), st.lists(st.uuids(), max_size=3))
    def it_tells_which_chunks_it_has(self, some, strangers):
        ids, _, _ = some
        index = postings(*some)
        others = [ChunkId(str(each)) for each in strangers if str(each) not in ids]
        found = index.of([*others, *reversed(ids)])
        assert (index.ids(found.numbers) if found else []) == ids[::-1]
        assert index.of(others) is None

    @given(chunks(), units, phrases, weights, st.data())
    def it_has_some_of_its_chunks_told_of_as_their_rows_are(self, some, asked, said, fields, data):
        ids, documents, parts = some
        chosen = data.draw(st.permutations(range(len(ids))))[: data.draw(st.integers(1, 12))]
        if not chosen:
            return
        rows = IndexRows(packed([documents[each] for each in chosen]), [parts[each] for each in chosen])
        index = postings(*some).of([ids[each] for each in chosen])
        collection = Collection(chunk_count=9, term_count=90, chunk_frequency=dict.fromkeys(TERMS, 4))
        question = Asked(units=tuple(Unit(ways=tuple(ways)) for ways in asked), phrases=tuple(said))
        weighed = weigh(question, collection)
        assert score(weighed, index, TOKENS, fields) == pytest.approx(score(weighed, rows, TOKENS, fields))
        held = coverage(question, [(index, TOKENS)], fields)
        assert held == pytest.approx(coverage(question, [(rows, TOKENS)], fields))

    def it_orders_equal_scores_by_chunk_id_also_where_it_cuts(self):
        assert highest(np.array([1.0, 2.0, 1.0, 1.0, 0.0]), 3).tolist() == [1, 0, 2]
        assert highest(np.array([1.0, 2.0, 1.0, 1.0, 0.0]), 9).tolist() == [1, 0, 2, 3]
        among = np.array([False, True, True, True, False])
        assert highest(np.zeros(5), 2, among=among).tolist() == [1, 2]
        assert highest(np.zeros(5), 3).tolist() == []

    def it_tells_tokens_apart_by_all_their_characters(self):
        builder = PostingsBuilder()
        builder.add([ChunkId("x")], [b"paaaaaabbbbbb paaaaaabbbbbc baaaaaabbbbbb"], [FieldTerms()])
        index = builder.build()
        assert [index.chunk_frequency(f"{first}aaaaaabbbbb{last}") for first, last in ("pb", "pc", "bb", "bc")] == [
            *(1, 1, 1),
            0,
        ]

    @pytest.mark.parametrize("token", ["short", "a" * 14])
    def it_refuses_tokens_of_other_widths(self, token):
        index = postings([ChunkId("x")], [["a"]], [FieldTerms()])
        with pytest.raises(ValueError, match="13 characters"):
            index.occurrences(token)


class DescribePostingsBuilder:
    def it_refuses_rows_that_are_not_made_of_tokens(self):
        with pytest.raises(ValueError, match="13 characters"):
            PostingsBuilder().add([ChunkId("x")], [b"a b"], [FieldTerms()])

    def it_refuses_more_places_than_it_can_tell_apart(self, monkeypatch):
        monkeypatch.setattr("pipeline.core.postings._PLACE_BITS", 4)
        ids = [ChunkId(str(number)) for number in range(5)]
        assert postings(ids[:4], [["a"] * 3] * 4, [FieldTerms()] * 4).term_count == 12
        with pytest.raises(TooManyPlaces, match="5 chunks of up to 3 terms"):
            postings(ids, [["a"] * 3] * 5, [FieldTerms()] * 5)
