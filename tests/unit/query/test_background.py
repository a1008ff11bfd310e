"""Add terms of the conversation and of the user's profile to a query where no model reads them."""

from __future__ import annotations

import pytest

from pipeline.query.keywords import Background, background_of, conversation_words, profile_words
from pipeline.query.model_replies import Rewritten
from pipeline.query.plan import ChannelPlan, Plan, RetrievePlan, UnderstandPlan
from pipeline.query.request import Query
from pipeline.query.understanding import ModelResults, understood_by_model, understood_by_rules, wordings_of
from pipeline.records import ChannelName, Namespace
from tests.support.corpora.queries import query_of

SPOKEN = Background(conversation=("user: I like green tea", "assistant: Use eighty degrees."))


def query(text: str, background: Background | None, understand: UnderstandPlan | None = None) -> Query:
    channels = {"keyword": ChannelPlan(), "semantic": ChannelPlan()}
    plan = Plan(retrieve=RetrievePlan(channels=channels), understand=understand or UnderstandPlan())
    return query_of(text, namespaces=(Namespace("kb"),), plan=plan, created_at=0, deadline_s=5, background=background)


class DescribeTheBackground:
    def it_keeps_the_last_messages_and_none_that_is_blank(self):
        found = background_of([f"message {number}" for number in range(20)] + [" ", "x" * 5_000], {})
        assert found is not None
        assert (len(found.conversation), found.conversation[0]) == (8, "message 13")
        assert len(found.conversation[-1]) == 1_000
        assert background_of(["", " "], {}) is None
        assert background_of(None, None) is None

    @pytest.mark.parametrize(
        ("messages", "words"),
        [
            (["user: I like green tea", "assistant: Use eighty degrees."], ("eighty", "degrees", "green", "tea")),
            (["用户：我想喝绿茶", "助手：请问用什么茶壶？"], ("茶壶", "绿茶")),
        ],
    )  # fmt: skip
    def it_names_the_words_of_the_newest_message_first(self, messages, words):
        found = conversation_words(Background(conversation=tuple(messages)))
        assert [word for word in found if word in words] == list(words)

    @pytest.mark.parametrize(
        ("profile", "words"),
        [
            ({"role": "nurse", "interests": ["diabetes", "insulin"], "name": "Zoe Miller"}, ("nurse", "diabetes", "insulin")),
            ({"role": "护士", "preferences": ["糖尿病"], "name": "张三", "phone": "13812345678"}, ("护士", "糖尿病")),
            ({"preferences": {"nested": "object"}, "interests": 5}, ()),
        ],
    )  # fmt: skip
    def it_searches_for_what_somebody_does_and_never_for_who_it_is(self, profile, words):
        assert profile_words(Background(profile=profile)) == words


class DescribeAQueryWithABackground:
    def it_is_asked_with_the_words_of_the_conversation_too(self):
        understood = understood_by_rules(query("how hot?", SPOKEN), model=False)
        for channel in (ChannelName.KEYWORD, ChannelName.SEMANTIC):
            (wording,) = wordings_of(understood, channel)
            assert wording.text.startswith("how hot? ")
            assert "green tea" in wording.text
            assert wording.weight < 1
        assert wordings_of(understood, ChannelName.FAQ) == ()

    def it_is_asked_by_its_own_words_where_understanding_is_off_or_it_is_a_code(self):
        off = understood_by_rules(query("how hot?", SPOKEN, UnderstandPlan(enabled=False)), model=False)
        assert wordings_of(off, ChannelName.KEYWORD) == ()
        code = understood_by_rules(query("PPR-9087", SPOKEN, UnderstandPlan(router="rules")), model=True)
        assert wordings_of(code, ChannelName.KEYWORD) == ()
        assert code.model_steps == ()

    def it_is_rewritten_by_a_model_and_then_needs_no_other_words(self):
        asked = understood_by_rules(query("how hot?", SPOKEN), model=True)
        assert "rewrite" in asked.model_steps
        made = ModelResults(rewritten=Rewritten(expanded_query="water temperature for green tea"))
        assert [each.text for each in wordings_of(understood_by_model(asked, made), ChannelName.SEMANTIC)] == [
            "water temperature for green tea"
        ]
        assert len(wordings_of(understood_by_model(asked, ModelResults()), ChannelName.SEMANTIC)) == 1
