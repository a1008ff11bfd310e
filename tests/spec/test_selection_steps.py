"""The steps of selection, each by its rule: deduplication, ladder, grades, caps, diversity, validity."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.filters.python_filters import unmet
from pipeline.query.plan import LadderPlan, QualityPlan
from pipeline.ranking.selection import (
    content_hash,
    deduplicated,
    diversified,
    graded,
    likeness,
    numbered,
    select,
    shingles,
    similarity_of,
    stepped_down,
)
from pipeline.records import ChannelName, DocumentFields, Filters
from pipeline.retrieval.load_text import flaw
from tests.support.corpora.hits import hit, ids
from tests.support.corpora.selections import NOW, plan

KEYWORD, SEMANTIC = ChannelName.KEYWORD, ChannelName.SEMANTIC


def reasons(drops) -> dict[str, str]:
    return {drop.chunk_id: drop.reason for drop in drops}


class DescribeDedupe:
    @pytest.mark.parametrize(("by", "stay"), [("chunk", "a b c d"), ("document", "a c"), ("content", "a b d")])
    def it_keeps_the_best_of_what_is_the_same(self, by, stay):
        hits = [
            hit("a", 0.9, document="one", text="Green tea"),
            hit("b", 0.8, document="one", text="Black tea"),
            hit("c", 0.7, document="two", text="green \n  TEA"),
            hit("d", 0.6, document="two", text="White tea"),
        ]
        kept, dropped = deduplicated(hits, by)
        assert ids(kept) == stay
        assert set(reasons(dropped).values()) <= {f"same_{by}"}
        assert {each.chunk_id for each in [*kept, *dropped]} == set("abcd")

    def it_merges_who_found_it_and_adds_up_no_scores(self):
        hits = [
            hit("a", 0.9, text="tea", keyword=0.8),
            hit("b", 0.5, text="tea", keyword=0.2, semantic=0.6),
        ]
        [kept], [dropped] = deduplicated(hits, "content")
        assert {part.channel: part.score for part in kept.fused.contributions} == {KEYWORD: 0.8, SEMANTIC: 0.6}
        assert (kept.score, kept.duplicates) == (0.9, ("b",))
        assert (dropped.chunk_id, dropped.value, dropped.limit) == ("b", 0.5, 0.9)

    def it_tells_documents_of_two_namespaces_apart(self):
        one, other = hit("a", document="d"), hit("b", document="d")
        other = replace(other, passage=replace(other.passage, namespace="elsewhere"))
        assert ids(deduplicated([one, other], "document")[0]) == "a b"

    @pytest.mark.parametrize(
        ("one", "other", "same"),
        [
            ("Green tea", "green\u00a0 TEA\n", True),
            ("ＰＰＲ－９０８７", "PPR-9087", True),  # full width
            ("cafe\u0301", "café", True),  # composed or not
            ("now here", "nowhere", False),
            ("-5 °C", "5 °C", False),
            ("绿茶", "红茶", False),
        ],
    )
    def it_compares_texts_as_a_reader_would(self, one, other, same):
        assert (content_hash(one) == content_hash(other)) is same


class DescribeTheLadder:
    def _climb(self, similarities, *, min_results=5, top_k=10, per_document=None, documents=None):
        hits = [
            hit(f"c{place}", 1 - place / 100, semantic=similarity, document=documents and documents[place])
            for place, similarity in enumerate(similarities)
        ]
        return stepped_down(hits, LadderPlan(min_results=min_results), top_k=top_k, per_document=per_document)

    @pytest.mark.parametrize(
        ("similarities", "threshold", "kept", "is_enough"),
        [
            ([0.9, 0.8, 0.75, 0.72, 0.7, 0.65], 0.7, 5, True),
            ([0.9, 0.8, 0.75, 0.72, 0.69, 0.3], 0.6, 5, True),
            ([0.9, 0.65, 0.55, 0.54, 0.53, 0.2], 0.5, 5, True),
            ([0.9, 0.65, 0.55, 0.2, 0.1, 0.1], 0.5, 3, False),  # too few: those that exist
            ([0.4, 0.3], 0.5, 0, False),
            ([], 0.5, 0, False),
        ],
    )
    def it_steps_down_until_there_are_enough(self, similarities, threshold, kept, is_enough):
        found, dropped, step = self._climb(similarities)
        assert (step.threshold, step.hits, step.enough) == (threshold, kept, is_enough)
        assert (len(found), len(found) + len(dropped)) == (kept, len(similarities))
        assert all((drop.stage, drop.limit) == ("ladder", threshold) for drop in dropped)

    def it_asks_for_no_more_than_are_returned(self):
        _, _, step = self._climb([0.9, 0.8, 0.55, 0.54, 0.53], top_k=2)
        assert (step.threshold, step.enough) == (0.7, True)

    def it_does_not_count_what_the_cap_on_a_document_will_take_away(self):
        _, _, step = self._climb([0.9, 0.8, 0.75, 0.65], min_results=2, per_document=1, documents=["d", "d", "d", "e"])
        assert step.threshold == 0.6

    @pytest.mark.parametrize(
        ("given_hit", "similarity"),
        [
            (hit("a", semantic=0.64, keyword=9.0), 0.64),  # meaning decides where it had a say
            (hit("a", 0.6, keyword=6.0), 0.6),  # else the confidence
            (hit("a", semantic=-0.1), 0.0),
            (hit("a", 0.0), 0.0),
        ],
    )
    def it_measures_similarity(self, given_hit, similarity):
        assert similarity_of(given_hit, zero=0.0) == pytest.approx(similarity)

    @settings(max_examples=30)
    @given(st.lists(st.floats(0, 1), max_size=12), st.integers(1, 8), st.integers(1, 8))
    def it_keeps_exactly_what_reaches_the_threshold_in_the_order_there_was(self, similarities, min_results, top_k):
        kept, dropped, step = self._climb(similarities, min_results=min_results, top_k=top_k)
        assert [each.chunk_id for each in kept] == [
            f"c{place}" for place, similarity in enumerate(similarities) if similarity >= step.threshold
        ]
        assert len(kept) + len(dropped) == len(similarities)
        assert step.enough == (len(kept) >= min(min_results, top_k))


class DescribeGrades:
    def _hits(self, *grades, step=0.01):
        return [
            hit(f"{place}", 1 - place * step, metadata={} if grade is None else {"quality_grade": grade})
            for place, grade in enumerate(grades)
        ]

    @pytest.mark.parametrize(
        ("count_of_worst", "stay"),
        [(11, 5), (10, 15)],  # 16 hits are more than 15: the worst go; 15 are not
    )
    def it_spares_the_worst_when_there_is_enough_without_counting_the_cut(self, count_of_worst, stay):
        hits = self._hits(*["优秀"] * 5, *["一般"] * count_of_worst)
        kept, dropped = select(hits, plan(15, quality=QualityPlan()))
        assert (len(kept), len(dropped)) == (stay, len(hits) - stay)

    def it_keeps_the_worst_when_there_is_nothing_else(self):
        assert len(graded(self._hits(*["一般"] * 20), QualityPlan())[0]) == 20

    def it_counts_what_nobody_graded_as_the_worst(self):
        kept, dropped = graded(self._hits("良好", None, "?"), QualityPlan(enough=2))
        assert (ids(kept), reasons(dropped)) == ("0", {"1": "worst_grade", "2": "worst_grade"})

    @pytest.mark.parametrize(
        ("scores", "grades", "order"),
        [
            ((1.0, 0.99), ("良好", "优秀"), "1 0"),  # a near-tie goes to the better grade
            ((1.0, 0.98), ("良好", "优秀"), "0 1"),  # 2 % behind is behind
            ((1.0, 0.99, 0.98), ("一般", "良好", "优秀"), "1 0 2"),  # the span counts from the first of a group
            ((0.02, 0.0199), ("良好", "优秀"), "1 0"),  # a share of the best, whatever the scale
            ((0.5, 0.5), ("良好", "优秀"), "1 0"),
            ((0.0, 0.0), ("良好", "优秀"), "1 0"),
        ],
    )
    def it_settles_near_ties(self, scores, grades, order):
        hits = [
            hit(f"{place}", score, metadata={"quality_grade": grade})
            for place, (score, grade) in enumerate(zip(scores, grades, strict=True))
        ]
        assert ids(graded(hits, QualityPlan())[0]) == order

    def it_lets_the_newer_of_equal_grades_go_first_in_a_near_tie(self):
        old = hit("old", 1.0, updated_at=datetime(2024, 1, 1, tzinfo=UTC))
        new = hit("new", 0.99, updated_at=datetime(2026, 1, 1, tzinfo=UTC))
        undated = hit("undated", 0.985)
        assert ids(graded([undated, old, new], QualityPlan())[0]) == "new old undated"

    def it_takes_whatever_scale_of_grades_it_is_given(self):
        hits = [hit(f"{place}", 1.0, metadata={"stars": grade}) for place, grade in enumerate(["C", "A", "B"])]
        quality = QualityPlan(key="stars", grades=("A", "B", "C"), enough=2)
        assert ids(graded(hits, quality)[0]) == "1 2"


class DescribeTheCapOnADocument:
    def it_takes_the_first_of_each_document(self):
        hits = [hit(name, document=document) for name, document in zip("abcde", "xxxyx", strict=True)]
        kept, dropped = select(hits, plan(per_document=2))
        assert ids(kept) == "a b d"
        assert [(drop.chunk_id, drop.value, drop.limit) for drop in dropped] == [("c", 3, 2), ("e", 4, 2)]


class DescribeDiversity:
    HITS = (
        hit("a", 1.0, text="the red fox jumps over the lazy dog"),
        hit("b", 0.9, text="the red fox jumps over a lazy dog"),
        hit("c", 0.5, text="blue whales sing in deep water"),
    )

    @pytest.mark.parametrize(("diversity", "order"), [(0.0, "a b c"), (0.2, "a b c"), (0.5, "a c b"), (1.0, "a c b")])
    def it_prefers_what_was_not_said_yet_as_far_as_it_is_told(self, diversity, order):
        assert ids(diversified(self.HITS, diversity=diversity, top_k=3)) == order

    def it_tells_how_alike_things_are_and_leaves_scores_alone(self):
        found = diversified(self.HITS, diversity=0.5, top_k=3)
        assert [(each.score, round(each.likeness, 2)) for each in found] == [(1.0, 0.0), (0.5, 0.0), (0.9, 0.88)]

    @given(
        st.lists(st.tuples(st.integers(0, 4), st.sets(st.sampled_from("abcdefg"), max_size=4)), max_size=12),
        st.sampled_from([0.2, 0.5, 1.0]),
        st.integers(1, 12),
    )
    def it_chooses_each_time_what_is_worth_most_beside_those_before(self, found, diversity, top_k):
        hits = [hit(f"{at}", score / 4, text=" ".join(sorted(words)) or "…") for at, (score, words) in enumerate(found)]
        best, said, left, order = max((each.score for each in hits), default=0.0), [], list(hits), []
        while left and len(order) < top_k:

            def worth(each):
                own = shingles(each.passage.text)
                alike = max((len(own & words) / len(own) for words in said if own), default=0.0)
                return (1 - diversity) * (each.score / best if best else 0.0) - diversity * alike, alike

            taken = max(left, key=lambda each: worth(each)[0])  # the first of equals
            order.append((taken.chunk_id, worth(taken)[1]))
            said.append(shingles(taken.passage.text))
            left.remove(taken)
        chosen = diversified(hits, diversity=diversity, top_k=top_k)
        assert [(each.chunk_id, each.likeness) for each in chosen] == order

    def it_names_what_it_passed_over(self):
        _, dropped = select(self.HITS, plan(2, diversity=0.5))
        assert reasons(dropped) == {"b": "too_alike"}

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("The red, red Fox!", {"the", "red", "fox"}),
            ("绿茶水", {"绿茶", "茶水"}),
            ("茶", {"茶"}),
            ("用PPR-9087错误", {"用", "ppr", "9087", "错误"}),
            ("…", set()),
        ],
    )
    def it_reads_words_and_pairs_of_characters(self, text, found):
        assert shingles(text) == found

    @pytest.mark.parametrize(
        ("one", "said", "alike"),
        [
            ("red fox", "the red fox jumps", 1.0),  # says nothing new
            ("the red fox jumps", "red fox", 0.5),  # adds to it
            ("red fox", "blue whale", 0.0),
            ("…", "…", 0.0),
        ],
    )
    def it_measures_how_much_was_said_already(self, one, said, alike):
        assert likeness(*numbered([shingles(one), shingles(said)])) == alike

    @settings(max_examples=30)
    @given(st.text(max_size=40), st.text(max_size=40))
    def it_finds_a_text_to_be_like_itself_and_whatever_holds_it(self, one, other):
        first, both = shingles(one), shingles(f"{other} {one}")
        part, whole = numbered([first, both])
        assert likeness(part, whole) == (1.0 if first else 0.0)
        assert 0 <= likeness(whole, part) <= 1


class DescribeTheSafetyNet:
    FIELDS = DocumentFields(
        type="manual",
        author="Li",
        tags=("a", "b"),
        published_at=datetime(2026, 3, 1, tzinfo=UTC),
        story_time=100,
        metadata={"k": "v", "n": 1, "flag": True, "list": ["x", "y"], "deep": {"in": 1, "out": 2}},
    )

    @pytest.mark.parametrize(
        ("filters", "failed"),
        [
            (Filters(), None),
            (Filters(type="manual", author="Li", tags=("b",), story_time=100), None),
            (Filters(type="note"), "type"),
            (Filters(type="Manual"), "type"),
            (Filters(author="Wang"), "author"),
            (Filters(tags=("a", "c")), "tags"),
            (Filters(metadata={"k": "v", "n": 1.0}), None),
            (Filters(metadata={"k": "w"}), "metadata"),
            (Filters(metadata={"flag": 1}), "metadata"),
            (Filters(metadata={"list": ["y"]}), None),
            (Filters(metadata={"deep": {"in": 1}}), None),
            (Filters(metadata={"missing": None}), "metadata"),
            (Filters(start=datetime(2026, 3, 1, tzinfo=UTC)), None),
            (Filters(start=datetime(2026, 3, 2, tzinfo=UTC)), "start"),
            (Filters(end=datetime(2026, 2, 28)), "end"),
            (Filters(story_time=99), "story_time"),
        ],
    )
    def it_finds_the_filter_that_is_not_met(self, filters, failed):
        assert unmet(filters, self.FIELDS) == failed

    def it_takes_no_date_for_outside_and_no_story_time_for_inside(self):
        assert unmet(Filters(start=NOW), DocumentFields()) == "start"
        assert unmet(Filters(story_time=1), DocumentFields()) is None

    @pytest.mark.parametrize(
        ("given_hit", "found"),
        [
            (hit("a", semantic=1.0), None),
            (hit("a", semantic=1.0004), None),  # rounding of half precision
            (hit("a", semantic=-0.3), None),  # nothing alike is no mistake
            (hit("a", semantic=1.2), "impossible_similarity"),
            (hit("a", semantic=float("nan")), "impossible_similarity"),
            (hit("a", float("inf")), "impossible_score"),
            (hit("a", text=" \n\u3000"), "empty_text"),
            (hit("", text="x"), "incomplete_metadata"),
        ],
    )
    def it_finds_what_cannot_be_shown(self, given_hit, found):
        said = flaw(given_hit.fused, given_hit.passage)
        assert (said and said[0]) == found
