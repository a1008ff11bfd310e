"""Judgments made of users' ratings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from chordwise.contract.ratings import FeedbackShape
from pipeline.feedback.judgments import feedback_id, text_key
from pipeline.feedback.judgments import judgments as judged
from pipeline.records import QueryId

START = datetime(2026, 1, 1, tzinfo=UTC)


def said(rating, *, at=0, document="d", chunk="c", query="q1", session=None, text="red fox"):
    moment = START + timedelta(minutes=at)
    return FeedbackShape(
        feedback_id=f"{query}/{document}/{chunk}/{rating}/{session}",
        created_at=moment,
        rated_at=moment,
        query_id=QueryId(query),
        query_text=text,
        namespaces=("kb",),
        namespace="kb",
        document_id=document,
        chunk_id=chunk,
        rating=rating,
        profile="default",
        config_version=1,
        session_id=session,
    )


def judgments(feedback, **options):
    return judged(feedback, tenant_id="demo", namespace="kb", **options)


def grades(*feedback, **options):
    return {each: grade for text in judgments(feedback, **options) for each, grade in text.relevant.items()}


class DescribeGrades:
    @pytest.mark.parametrize(
        ("feedback", "grade"),
        [
            ([said("good")], 2),
            ([said("bad")], 0),
            ([said("click", query="q1"), said("click", query="q2")], 1),
            ([said("good", at=0, query="q1"), said("bad", at=1, query="q2")], 0),  # the newest explicit rating decides
            ([said("bad", at=0), said("good", at=1)], 2),
            ([said("good", at=1), said("bad", at=0)], 2),  # in whatever order they are read
            (
                [said("bad", at=0), *(said("click", at=n, query=f"q{n}") for n in range(2, 9))],
                0,
            ),  # clicks never overrule
            ([said("good", chunk="c1", at=0), said("bad", chunk="c2", at=1)], 2),  # as good as its best passage
            ([said("good", chunk="c1", query="q1", at=0), said("bad", chunk="c2", query="q2", at=1)], 0),
            ([said("good", chunk="c1", at=0), said("bad", chunk="c1", at=1), said("bad", chunk="c2", at=2)], 0),
        ],
    )
    def it_lets_the_newest_word_decide_and_clicks_only_without_one(self, feedback, grade):
        assert grades(*feedback) == {"d": grade}

    @pytest.mark.parametrize(
        ("feedback", "min_votes", "found"),
        [
            ([said("click")], 1.0, {}),  # one click says too little
            ([said("click")], 0.5, {"d": 1}),
            ([said("click", session="s", query="q1"), said("click", session="s", query="q2")], 1.0, {}),  # one person
            ([said("good"), said("click")], 1.5, {}),  # who has spoken has clicked as well
            ([said("good", query="q1"), said("click", query="q2")], 1.5, {"d": 2}),
            ([said("good", session="s", query="q1"), said("good", session="s", query="q2")], 2.0, {}),
        ],
    )
    def it_counts_each_person_once_and_a_click_half(self, feedback, min_votes, found):
        assert grades(*feedback, min_votes=min_votes) == found

    def it_counts_who_said_what(self):
        [text] = judgments([said("good", session="a"), said("bad", session="b", at=1), said("click", session="c")])
        [judged] = text.votes.values()
        assert (judged.good, judged.bad, judged.clicks, judged.votes) == (1, 1, 1, 2.5)
        assert judged.rated_at == START + timedelta(minutes=1)


class DescribeQuestions:
    def it_takes_spellings_for_one_question_and_shows_the_latest(self):
        found = judgments([said("good", text="Red  fox", at=0), said("good", text="ｒed FOX ", at=1, document="e")])
        assert [(text.query_text, len(text.relevant)) for text in found] == [("ｒed FOX ", 2)]
        assert found[0].query_id == text_key("red fox").hex()

    def it_keeps_different_questions_apart_and_in_order(self):
        found = judgments([said("good", text="fox"), said("good", text="whale")])
        assert [text.query_id for text in found] == sorted(text_key(each).hex() for each in ("fox", "whale"))


class DescribeFeedbackId:
    def it_tells_apart_whatever_counts_by_itself(self):
        ids = {
            feedback_id(query, kind, target, rating, session)
            for query in ("q1", "q2")
            for kind in ("chunk", "document")
            for target in ("a", "b")
            for rating in ("good", "bad", "click")
            for session in (None, "s")
        }
        assert len(ids) == 2 * 2 * 2 * 3 * 2
        assert feedback_id("q1", "chunk", "a", "good", None) in ids
