"""Hits of the keyword channel and their order, as tables."""

import pytest

from pipeline.keyword.dictionary import Dictionary
from pipeline.keyword.matching import FieldWeights
from tests.support.corpora.small_collection import index, passage, ranked, scores

NOISE = [
    "An unrelated passage.",
    "Another one about the weather.",
    "完全无关的内容。",
    "Part 12 of 9000 of the series.",
]


class DescribeIdentifiers:
    @pytest.mark.parametrize(
        ("query", "exact", "partial"),
        [
            (
                "PPR-9087",
                "Order PPR-9087 today.",
                ["Order PPR-9088.", "Invoice 9087 is due.", "PPR is a series, PPR it is."],
            ),
            ("ppr9087", "Order PPR-9087 today.", []),
            ("PPR 9087", "Order PPR-9087 today.", ["PPR-9088 is another.", "Call 9087."]),
            ("node.js", "It runs on node.js here.", ["Every node of the tree.", "A js file."]),
            ("E1234", "Error E1234 was shown.", []),
            ("error code E1234", "Reset when E1234 is shown.", ["An error was shown.", "The code of conduct."]),
            ("国药准字H20013017", "批准文号：国药准字H20013017。", ["批准文号：国药准字H20013018。"]),
            ("J01CR02", "阿莫西林克拉维酸的编码是J01CR02。", []),
            ("v2.3.1", "Fixed in v2.3.1.", ["Fixed in v2.3.2."]),
            ("C++", "Written in C++.", ["Vitamin C is good."]),
            ("5-HT2A", "An antagonist of 5-HT2A.", ["An antagonist of 5-HT3."]),
        ],
    )
    def it_ranks_the_exact_one_first(self, query, exact, partial):
        found = ranked(query, [*partial, *NOISE, exact])
        assert found[0] == exact
        assert set(found[1:]) <= {*partial, *NOISE}

    @pytest.mark.parametrize(
        ("query", "others"), [("E1234", ["E12345", "E123", "1234"]), ("J01CR02", ["J01CR05", "CR02"])]
    )
    def it_finds_no_neighbour_of_a_code(self, query, others):
        assert ranked(query, [*others, *NOISE]) == []


class DescribeFields:
    IN_TITLE, IN_BODY = (
        index("The text speaks of something else.", "Foxes"),
        index("The foxes run over there.", "Manual"),
    )

    @pytest.mark.parametrize(
        ("fields", "first"),
        [
            (FieldWeights(title=3), "title"),
            (FieldWeights(body=3), "body"),
            (FieldWeights(title=0), "body"),
            (FieldWeights(body=0), "title"),
        ],
    )
    def it_weighs_them_as_the_query_says(self, fields, first):
        (in_title, in_body), _ = scores("foxes", [self.IN_TITLE, self.IN_BODY], fields=fields)
        assert (in_title > in_body) == (first == "title")
        assert min(in_title, in_body) >= 0

    def it_finds_a_segment_by_summary_and_entity_names(self):
        segment = index(passage("They met at dusk.", summary="A duel of rivals", entity_names=("Li Lei", "韩梅梅")))
        for query, field in (
            ("duel", "summary"),
            ("Lei", "entity_names"),
            ("韩梅梅", "entity_names"),
            ("dusk", "body"),
        ):
            chunks = [segment, *map(index, NOISE)]
            [usual, *others], _ = scores(query, chunks)
            [more, *_], _ = scores(query, chunks, fields=FieldWeights(**{field: 2.0}))
            [without, *_], _ = scores(query, chunks, fields=FieldWeights(**{field: 0.0}))
            assert more > usual > without == 0.0
            assert not any(others)


class DescribeADictionary:
    WORDS = Dictionary(
        synonyms=(("高血压", "hypertension", "high blood pressure"), ("car", "automobile")),
        stop_words=("请问", "kindly"),
        phrases=("slow query log",),
    )

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ("hypertension", ["Hypertension is common.", "High blood pressure is common.", "高血压很常见。"]),
            ("高血压", ["Hypertension is common.", "High blood pressure is common.", "高血压很常见。"]),
            ("automobiles", ["A car stops."]),
            ("kindly", ["Kindly wait."]),
            ("kindly car", ["A car stops."]),
        ],
    )
    def it_finds_what_means_the_same(self, query, found):
        texts = [
            "Hypertension is common.",
            "High blood pressure is common.",
            "高血压很常见。",
            "A car stops.",
            "Kindly wait.",
            "Nothing of it.",
        ]
        assert sorted(ranked(query, texts, dictionary=self.WORDS)) == sorted(found)

    def it_counts_a_group_once(self):
        both, one, other = (index(text) for text in ("car automobile aa", "car car bb", "automobile cc dd"))
        found, bound = scores("car", [both, one, other, *map(index, NOISE)], dictionary=self.WORDS)
        _, plain = scores("car", [both, one, other, *map(index, NOISE)])
        assert 0 < max(found) < bound < plain  # the union is in more chunks than the word, so it is worth less

    def it_drops_a_chinese_stop_word_with_the_bigrams_across_its_edges(self):
        texts = ["问高了价格", "请问你是谁", "高血压很常见"]
        assert ranked("请问高血压", texts, dictionary=self.WORDS) == ["高血压很常见"]
        assert ranked("请问", texts, dictionary=self.WORDS) == ["请问你是谁"]  # never to nothing

    def it_prefers_a_phrase_in_one_piece(self):
        together, apart = "set the slow query log now please", "log the query now please slow set"
        assert ranked("slow query log", [apart, together], dictionary=self.WORDS)[0] == together
        [first, second], bound = scores("slow query log", [index(together), index(apart)])
        assert first > second  # the query stands in one passage as it was typed
        with_phrase, higher = scores("slow query log", [index(together), index(apart)], dictionary=self.WORDS)
        assert with_phrase[0] > first
        assert with_phrase[1] == second
        assert higher > bound
