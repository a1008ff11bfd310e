"""BM25 against its formula, and the laws that the keyword channel relies on."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.keyword.scoring import K1, B, Collection
from tests.support.corpora.plain_bm25 import TermCounts, bm25, upper_bound

terms = st.sampled_from("abcdef")
chunks = st.lists(st.lists(terms, max_size=12), min_size=1, max_size=8)
queries = st.lists(terms, max_size=5)


def collection_of(documents) -> Collection:
    return Collection(
        chunk_count=len(documents),
        term_count=sum(map(len, documents)),
        chunk_frequency={term: sum(term in document for document in documents) for term in "abcdef"},
    )


class DescribeBm25:
    def it_follows_the_formula(self):
        collection = Collection(chunk_count=10, term_count=50, chunk_frequency={"flow": 3})
        idf = math.log(1 + (10 - 3 + 0.5) / (3 + 0.5))
        expected = idf * 2 * (K1 + 1) / (2 + K1 * (1 - B + B * 8 / 5))
        [score] = bm25(["flow"], [TermCounts(frequency={"flow": 2}, length=8)], collection)
        assert score == pytest.approx(expected)

    @pytest.mark.parametrize(
        ("documents", "query", "order"),
        [
            (["a b", "a a b", "b b"], "a", [1, 0, 2]),  # more often is better
            (["a b c d e f", "a b"], "a", [1, 0]),  # in less text is better
            (["a b", "a c", "a d", "a b"], "a d", [2, 0, 1, 3]),  # the rare term decides
        ],
    )
    def it_orders_documents(self, documents, query, order):
        split = [document.split() for document in documents]
        scores = bm25(query.split(), [TermCounts.of(document) for document in split], collection_of(split))
        assert sorted(range(len(scores)), key=lambda place: (-scores[place], place)) == order

    def it_scores_nothing_in_an_empty_collection(self):
        empty = Collection(chunk_count=0, term_count=0, chunk_frequency={})
        assert bm25(["a"], [], empty) == []
        assert bm25(["a"], [TermCounts.of([])], empty) == [0.0]

    @settings(max_examples=30)
    @given(chunks, queries)
    def it_stays_between_zero_and_the_upper_bound(self, documents, query):
        collection = collection_of(documents)
        for score in bm25(query, map(TermCounts.of, documents), collection):
            assert 0 <= score <= upper_bound(query, collection)

    @settings(max_examples=30)
    @given(chunks, queries)
    def it_counts_a_repeated_query_term_once(self, documents, query):
        counted, collection = [TermCounts.of(document) for document in documents], collection_of(documents)
        assert bm25(query + query, counted, collection) == bm25(query, counted, collection)
        assert upper_bound(query + query, collection) == upper_bound(query, collection)

    @given(st.integers(0, 50), st.integers(0, 100))
    def it_never_has_a_negative_idf_even_with_stale_statistics(self, chunk_count, frequency):
        assert Collection(chunk_count=chunk_count, term_count=9, chunk_frequency={"a": frequency}).idf("a") > 0
