"""Add terms of the conversation and of the user's profile to a query unless a model reads them."""

from __future__ import annotations

import pytest

from pipeline.query.keywords import Background, background_of, conversation_words, profile_words
from pipeline.query.model_replies import Rewritten
from pipeline.query.plan import ChannelPlan, Plan, RetrievePlan, UnderstandPlan
from pipeline.query.request import Query
from pipeline.query.understanding import ModelResults, understood_by_model, understood_by_rules, wordings_of
from pipeline.records import ChannelName, Namespace
from tests.support.corpora.queries import query_of

CONVERSATION = Background(conversation=("user: I like green tea", "assistant: Use eighty degrees."))


def query(text: str, background: Background | None, understand: UnderstandPlan | None = None) -> Query:
    channels = {"keyword": ChannelPlan(), "semantic": ChannelPlan()}
    plan = Plan(retrieve=RetrievePlan(channels=channels), understand=understand or UnderstandPlan())
    return query_of(text, namespaces=(Namespace("kb"),), plan=plan, created_at=0, deadline_s=5, background=background)


class DescribeTheBackground:
    def it_keeps_the_last_messages_that_are_not_blank(self):
        background = background_of([f"message {number}" for number in range(20)] + [" ", "x" * 5_000], {})
        assert background is not None
        assert (len(background.conversation), background.conversation[0]) == (8, "message 13")
        assert len(background.conversation[-1]) == 1_000
        assert background_of(["", " "], {}) is None
        assert background_of(None, None) is None

    @pytest.mark.parametrize(
        ("messages", "words"),
        [
            (["user: I like green tea", "assistant: Use eighty degrees."], ("eighty", "degrees", "green", "tea")),
            (["用户：我想喝绿茶", "助手：请问用什么茶壶？"], ("茶壶", "绿茶")),
        ],
    )  # fmt: skip
    def it_lists_the_words_of_the_newest_message_first(self, messages, words):
        background_words = conversation_words(Background(conversation=tuple(messages)))
        assert [word for word in background_words if word in words] == list(words)

    @pytest.mark.parametrize(
        ("profile", "words"),
        [
            ({"role": "nurse", "interests": ["diabetes", "insulin"], "name": "Zoe Miller"}, ("nurse", "diabetes", "insulin")),
            ({"role": "护士", "preferences": ["糖尿病"], "name": "张三", "phone": "13812345678"}, ("护士", "糖尿病")),
            ({"preferences": {"nested": "object"}, "interests": 5}, ()),
        ],
    )  # fmt: skip
    def it_takes_words_from_role_and_interests_but_never_a_name_or_number(self, profile, words):
        assert profile_words(Background(profile=profile)) == words


class DescribeAQueryWithABackground:
    def it_searches_with_the_words_of_the_conversation_too(self):
        understood = understood_by_rules(query("how hot?", CONVERSATION), model=False)
        for channel in (ChannelName.KEYWORD, ChannelName.SEMANTIC):
            (wording,) = wordings_of(understood, channel)
            assert wording.text.startswith("how hot? ")
            assert "green tea" in wording.text
            assert wording.weight < 1
        assert wordings_of(understood, ChannelName.FAQ) == ()

    def it_searches_by_its_own_words_alone_if_it_is_a_code_or_understanding_is_off(self):
        off = understood_by_rules(query("how hot?", CONVERSATION, UnderstandPlan(enabled=False)), model=False)
        assert wordings_of(off, ChannelName.KEYWORD) == ()
        code = understood_by_rules(query("PPR-9087", CONVERSATION, UnderstandPlan(router="rules")), model=True)
        assert wordings_of(code, ChannelName.KEYWORD) == ()
        assert code.model_steps == ()

    def it_takes_no_other_words_once_a_model_has_rewritten_it(self):
        query_for_model = understood_by_rules(query("how hot?", CONVERSATION), model=True)
        assert "rewrite" in query_for_model.model_steps
        results = ModelResults(rewritten=Rewritten(expanded_query="water temperature for green tea"))
        assert [
            each.text for each in wordings_of(understood_by_model(query_for_model, results), ChannelName.SEMANTIC)
        ] == ["water temperature for green tea"]
        assert len(wordings_of(understood_by_model(query_for_model, ModelResults()), ChannelName.SEMANTIC)) == 1
