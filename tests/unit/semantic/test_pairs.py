"""Question-answer pairs: what their question is, and how alike two questions are."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.channels.faq_channel import compared_texts, graded, likeness, question_of, words_in_common
from pipeline.keyword.terms import query_terms
from pipeline.query.plan import FallbackPlan
from pipeline.query.request import Understanding
from pipeline.records import TenantId
from pipeline.retrieval.fall_back import fallback_chunk, fallback_label, hint_passage, reason_for, with_room
from tests.support.corpora.traces import query

GRADES = ("优秀", "良好", "一般")
UNIT = st.floats(0, 1)


class DescribeWhatIsCompared:
    def it_is_the_question_as_it_was_sent_and_what_was_made_of_it(self):
        asked = query()
        assert compared_texts(asked) == ["what was asked"]
        known = Understanding(rewritten="what was meant", sub_queries=tuple("abcdefgh"))
        found = compared_texts(replace(asked, understanding=known))
        assert found == ["what was asked", "what was meant", "a", "b", "c", "d"]


class DescribeAPair:
    @pytest.mark.parametrize(
        ("fields", "question"),
        [
            ({"text": "Q: Why?\nA: Because.", "chunk_type": "qa"}, "Why?"),
            ({"text": "问：为什么？\n答：因为。", "chunk_type": "qa"}, "为什么？"),
            ({"text": "the rest", "chunk_type": "qa", "heading_path": ("Part", "Why?")}, "Why?"),
            ({"text": "nothing", "chunk_type": "qa"}, None),
            ({"text": "Why? Because.", "metadata": {"user_input": "Why?", "agent_response": "Because."}}, "Why?"),
            ({"text": "x", "metadata": {"user_input": "Why?"}}, None),
            ({"text": "x", "metadata": {"user_input": 5, "agent_response": "y"}}, None),
            ({"text": "Q: Why?\nA: Because."}, None),
        ],
    )
    def it_has_a_question(self, fields, question):
        assert question_of(**{"chunk_type": "parent", "heading_path": (), "metadata": {}, **fields}) == question


class DescribeLikeness:
    @pytest.mark.parametrize(
        ("asked", "stored", "found"),
        [
            ("reset the password", "How do I reset my password?", 1.0),
            ("reset the password", "reset the router", 0.5),
            ("如何重置密码", "怎么重置密码？", 0.8660254),
            ("tea", "coffee", 0.0),
            ("?!", "coffee", 0.0),
        ],
    )
    def it_counts_words_in_common(self, asked, stored, found):
        assert words_in_common(query_terms(asked), stored) == pytest.approx(found)

    @settings(deadline=None)
    @given(UNIT, st.floats(-1, 1.001))
    def it_stays_between_0_and_1(self, words, meaning):
        assert 0 <= likeness(words, meaning) <= 1 + 1e-12
        assert likeness(words, None) == words

    @settings(deadline=None)
    @given(UNIT, UNIT, UNIT)
    def it_never_falls_when_either_rises(self, words, meaning, more):
        assert likeness(max(words, more), meaning) >= likeness(words, meaning) - 1e-12
        assert likeness(words, max(meaning, more)) >= likeness(words, meaning) - 1e-12

    def it_prefers_better_grades_on_near_ties_only(self):
        best, middle, worst, none = (graded(0.9, grade, GRADES, near_tie=0.02) for grade in (*GRADES, None))
        assert best == 0.9
        assert best > middle > worst == none
        assert graded(0.93, "一般", GRADES, near_tie=0.02) > best
        assert graded(0.5, "一般", ("一般",), near_tie=0.02) == 0.5


class DescribeTheLastResort:
    HINT = hint_passage("Call 555.", tenant_id=TenantId("t"), namespace="kb")

    def chunk(self, confidence, *, below=1.0):
        return fallback_chunk(self.HINT, "hint", "empty", score=confidence, rank=1, below=below)

    @pytest.mark.parametrize(
        ("plan", "confidences", "reason"),
        [
            ({}, [], "empty"),
            ({"faq": True, "enabled": False}, [], None),
            ({"faq": True}, [], "empty"),
            ({"hint": "x"}, [0.1, 0.39], "below_threshold"),
            ({"hint": "x"}, [0.1, 0.4], None),
            ({"hint": "x", "threshold": 0.0}, [0.0], None),
        ],
    )
    def it_is_for_answers_that_hold_nothing_sure(self, plan, confidences, reason):
        assert reason_for(FallbackPlan(**plan), [self.chunk(each) for each in confidences]) == reason

    def it_stands_last_and_within_top_k(self):
        found, more = [self.chunk(0.3), self.chunk(0.2), self.chunk(0.1)], [self.chunk(0.9, below=0.1)]
        assert [chunk.confidence for chunk in with_room(found, more, top_k=3)] == [0.3, 0.2, 0.9]
        assert [chunk.confidence for chunk in with_room(found, more, top_k=5)] == [0.3, 0.2, 0.1, 0.9]
        assert with_room(found, more, top_k=3)[-1].score == 0.1
        assert with_room([], more, top_k=1) == tuple(more)

    def it_tells_what_and_why(self):
        assert fallback_label(["faq", "faq", "hint"], "empty") == "faq+hint:empty"
        assert fallback_label(["hint"], "below_threshold") == "hint:below_threshold"
        assert fallback_label([], "empty") is None
