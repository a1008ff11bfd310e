"""The vectorised scoring against the plain formula, and matching in rows of tokens."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.keyword.dictionary import KeywordQuery, Unit
from pipeline.keyword.matching import FieldWeights, IndexRows
from pipeline.keyword.scoring import Collection, coverage, score, weigh
from pipeline.records import FieldTerms
from tests.support.corpora.plain_bm25 import TermCounts, bm25, upper_bound

terms = st.sampled_from("abcdef")
chunks = st.lists(st.lists(terms, max_size=12), min_size=1, max_size=8)
queries = st.lists(terms, min_size=1, max_size=5, unique=True)
TOKENS = {term: f"{term}234567234567" for term in "abcdef"}


def rows(documents, fields=None) -> IndexRows:
    lines = [" ".join(TOKENS[term] for term in document).encode() for document in documents]
    return IndexRows(lines, fields or [FieldTerms()] * len(documents))


def of_each(index: IndexRows, places, fields: FieldWeights | None = None) -> list[float]:
    """How often what stands at these places occurs in each row."""
    holders, frequency = index.frequency(places, fields or FieldWeights())
    counted = dict(zip(holders.tolist(), frequency.tolist(), strict=True))
    return [counted.get(row, 0.0) for row in range(len(index.rows))]


class DescribeScore:
    @settings(max_examples=30)
    @given(chunks, queries)
    def it_is_bm25_where_there_is_no_dictionary_and_all_fields_count_alike(self, documents, query):
        collection = Collection(
            chunk_count=len(documents),
            term_count=sum(map(len, documents)),
            chunk_frequency={term: sum(term in document for document in documents) for term in "abcdef"},
        )
        weighed = weigh(KeywordQuery(units=tuple(Unit(ways=((term,),)) for term in query)), collection)
        found = score(weighed, rows(documents), TOKENS, FieldWeights()).tolist()
        assert found == pytest.approx(bm25(query, map(TermCounts.of, documents), collection))
        assert weighed.bound == pytest.approx(upper_bound(query, collection))

    @settings(max_examples=30)
    @given(chunks, st.floats(0, 100), st.floats(0, 100))
    def it_stays_below_the_bound_whatever_the_fields_weigh(self, documents, title, body):
        collection = Collection(chunk_count=9, term_count=90, chunk_frequency={"a": 3, "b": 2, "c": 0})
        units = (Unit(ways=(("a",), ("b", "c"))), Unit(ways=(("d",),)))
        weighed = weigh(KeywordQuery(units=units, phrases=(("a", "b"),)), collection)
        fields = [FieldTerms(title=len(document) // 2) for document in documents]
        found = score(weighed, rows(documents, fields), TOKENS, FieldWeights(title=title, body=body))
        assert all(0 <= scored <= weighed.bound + 1e-9 for scored in found.tolist())


class DescribeCoverage:
    def it_asks_what_occurs_and_neither_how_often_nor_in_how_long_a_text(self):
        asked = KeywordQuery(units=(Unit(ways=(("a",),)), Unit(ways=(("b",), ("c",)))))
        held = ["a", "aaadddd", "ab", "dddac", "d", ""]
        once, often, own_word, synonym, nothing, empty = coverage(asked, [(rows(held), TOKENS)], FieldWeights())
        assert once == pytest.approx(often)
        assert 0 < once < own_word == pytest.approx(synonym) == pytest.approx(1.0)
        assert nothing == empty == 0

    def it_counts_a_word_by_its_rarity_among_the_rows_of_all_blocks(self):
        asked = KeywordQuery(units=(Unit(ways=(("a",),)), Unit(ways=(("b",),))))
        common, both, rare = coverage(asked, [(rows(["a", "ab"]), TOKENS), (rows(["b"]), TOKENS)], FieldWeights())
        assert common == pytest.approx(rare) == pytest.approx(both / 2)
        common, _, _, rare = coverage(asked, [(rows(["a"] * 3), TOKENS), (rows(["b"]), TOKENS)], FieldWeights())
        assert common < rare

    @settings(max_examples=30)
    @given(chunks, queries)
    def it_lies_between_0_and_1(self, documents, query):
        asked = KeywordQuery(units=tuple(Unit(ways=((term,),)) for term in query))
        assert all(0 <= share <= 1 for share in coverage(asked, [(rows(documents), TOKENS)], FieldWeights(title=0.0)))
        assert coverage(asked, [], FieldWeights()) == []


class DescribeIndexRows:
    @settings(max_examples=30)
    @given(chunks)
    def it_counts_every_occurrence_in_its_row(self, documents):
        index = rows(documents)
        assert index.lengths.tolist() == list(map(len, documents))
        for term in "abcdef":
            counted = of_each(index, index.occurrences(TOKENS[term]))
            assert counted == [document.count(term) for document in documents]

    @settings(max_examples=30)
    @given(chunks, st.lists(terms, max_size=6, unique=True), st.sampled_from([1.0, 0.3, 3.0]))
    def it_counts_several_tokens_at_once(self, documents, wanted, title):
        index = rows(documents, [FieldTerms(title=min(1, len(document))) for document in documents])
        fields = FieldWeights(title=title)
        found = [counts.tolist() for counts in index.counts([TOKENS[term] for term in wanted], fields)]
        expected = [
            [title * (document[:1] == [term]) + document[1:].count(term) for document in documents] for term in wanted
        ]
        assert found == [pytest.approx(counts) for counts in expected]

    def it_weighs_each_field_by_its_place(self):
        index = rows(["aaaaaa"], [FieldTerms(title=1, summary=2, entity_names=1)])
        places = index.occurrences(TOKENS["a"])
        for fields, expected in (
            (FieldWeights(title=10), 15),
            (FieldWeights(body=10), 24),
            (FieldWeights(summary=10), 24),
            (FieldWeights(entity_names=10), 15),
        ):
            assert of_each(index, places, fields) == [expected]

    @settings(max_examples=30)
    @given(chunks, st.lists(terms, min_size=2, max_size=3))
    def it_finds_runs_within_rows_only(self, documents, run):
        index = rows(documents)
        counted = of_each(index, index.runs([TOKENS[term] for term in run]))
        expected = [
            sum(document[place : place + len(run)] == run for place in range(len(document))) for document in documents
        ]
        assert counted == expected

    def it_tells_tokens_apart_by_all_their_characters(self):
        index = IndexRows([b"aaaaaaaabbbbb aaaaaaaabbbbc"], [FieldTerms()])
        assert index.occurrences("aaaaaaaabbbbb").tolist() == [0]
        several = IndexRows([b"aaaaaaaabbbbb aaaaaaaabbbbc", b"aaaaaaaabbbbd"], [FieldTerms()] * 2)
        alike = [f"aaaaaaaabbbb{last}" for last in "cbed"]
        assert [several.counts(alike, FieldWeights())[at].tolist() for at in range(4)] == [
            [1, 0],
            [1, 0],
            [0, 0],
            [0, 1],
        ]
        others = [*alike[:1], *(f"{first}aaaaaaabbbbb" for first in "bcdef")]
        assert [counts.tolist() for counts in several.counts(others, FieldWeights())] == [[1, 0], *[[0, 0]] * 5]

    @pytest.mark.parametrize(("row", "token"), [(b"a" * 13, "short"), (b"a b", "a" * 13)])
    def it_refuses_tokens_of_other_widths(self, row, token):
        with pytest.raises(ValueError, match="13 characters"):
            IndexRows([row], [FieldTerms()]).occurrences(token)
