"""Queries that a language model helps to understand, through the gateway, with workers as the stack starts them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import httpx
import pytest

from pipeline.resources import Resources
from pipeline.settings import Settings
from tests.support.clients.operating import eventually
from tests.support.corpora.documents import found_documents, search
from tests.support.servers.openai_answers import hangs, refused, says
from tests.support.stacks.model_stack import DEADLINE_S, EXPAND, REWRITE, ROUTE, Served, model_stack

SUB_QUERIES = ["factory defaults of a gateway device", "恢复网关的出厂设置"]


@pytest.fixture(scope="module")
def served(settings: Settings, use: Resources, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One for the file."""
    with model_stack(settings, use, tmp_path_factory.mktemp("understanding"), redis_database=9) as found:
        yield found


@pytest.fixture
def client(served: Served) -> httpx.Client:
    served.model.requests.clear()
    served.model.by_prompt = {EXPAND: says(json.dumps(SUB_QUERIES, ensure_ascii=False))}
    return served.client


def ask(client: httpx.Client, text: str, **fields: object) -> dict:
    return search(client, "kb", text, **{"enable_rerank": False, **fields})


class DescribeExpansion:
    def it_finds_what_only_the_sub_queries_name(self, client, served):
        answer = ask(client, "reset a router at home")
        assert {"button", "clip"} <= set(found_documents(answer))
        assert answer["stats"]["expanded_queries"] == SUB_QUERIES
        assert answer["query"]["enable_expand"] is True
        assert not answer["stats"]["degraded"]
        assert answer["stats"]["hits"]["keyword"] == 2
        again = ask(client, "reset a router at home")
        assert found_documents(again) == found_documents(answer)
        assert len(served.model.seen("chat")) == 1, "the second time nobody had to be asked"

    def it_counts_what_the_model_was_asked_and_not_as_embedding(self, client):
        def used() -> dict[str, int]:
            rows = client.get("/v1/usage", params={"by": "purpose"}).json()["data"]
            return {row["key"]: row["requests"] for row in rows if row["tokens"]}

        def quota() -> int:
            return int(client.get("/v1/quotas").json()["tokens"]["used"])

        before = used()
        ask(client, "reset the router in the cellar", enable_rerank=True)
        for purpose in ("understand", "rerank"):
            eventually(lambda purpose=purpose: used().get(purpose, 0) > before.get(purpose, 0), within_s=5)
        rows = client.get("/v1/usage", params={"by": "purpose"}).json()["data"]
        assert quota() == sum(row["tokens"] for row in rows if row["key"] in ("ingest", "query"))

    def it_can_be_switched_off(self, client, served):
        answer = ask(client, "reset the router in the hall", enable_expand=False)
        assert (answer["stats"]["expanded_queries"], answer["query"]["enable_expand"]) == ([], False)
        assert served.model.seen("chat") == []
        assert answer["stats"]["hits"]["keyword"] == 1

    def it_writes_no_more_sub_queries_than_asked_for(self, client):
        answer = ask(client, "reset the router in the attic", understand={"expand": 1})
        assert answer["stats"]["expanded_queries"] == SUB_QUERIES[:1]

    @pytest.mark.parametrize(
        "failure", [refused(429), refused(500), says("Sorry."), hangs()], ids=["429", "500", "nonsense", "hangs"]
    )
    def it_costs_its_budget_when_the_model_fails(self, client, served, failure):
        served.model.by_prompt = {EXPAND: failure}
        started = time.monotonic()
        answer = ask(client, f"reset the router {id(failure)}")
        assert time.monotonic() - started < DEADLINE_S
        assert found_documents(answer)[0] == "button"
        assert [lost["part"] for lost in answer["stats"]["degradations"]] == ["expand"]

    def it_shows_nothing_of_an_injection_but_text(self, client, served):
        served.model.by_prompt = {EXPAND: says('["+kb -* (\\"", "\') OR 1=1; --", "{{query}}", "绿茶的水温"]')}
        answer = ask(client, "how hot for green leaves")
        assert "tea" in found_documents(answer)
        assert not answer["stats"]["degraded"]


class DescribeAFollowUp:
    @pytest.mark.parametrize(
        ("text", "said"),
        [("And how do I do that?", "user: my router does not start"), ("那具体怎么做？", "用户：我的路由器不能启动")],
    )
    def it_is_rewritten_with_what_was_said_before(self, client, served, text, said):
        rewritten = {"expanded_query": "reset the router", "keywords": [], "entity_mentions": []}
        served.model.by_prompt[REWRITE] = says(json.dumps(rewritten))
        fields = {"understand": {"expand": 0}, "conversation": [said], "user_profile": {"language": "en"}}
        answer = ask(client, text, **fields)
        assert answer["query"]["rewritten"] == "reset the router"
        assert found_documents(answer)[0] == "button"
        (request,) = served.model.seen("chat")
        assert said in request["messages"][1]["content"]
        ask(client, text, **{**fields, "conversation": ["Something else."]})
        assert len(served.model.seen("chat")) == 2, "another conversation is another question"

    def it_is_asked_with_the_words_of_the_conversation_if_the_model_fails(self, client, served):
        served.model.by_prompt[REWRITE] = refused(500)
        answer = ask(client, "How can I do it?", understand={"expand": 0}, conversation=["user: reset the router"])
        assert found_documents(answer)[0] == "button"
        assert [lost["part"] for lost in answer["stats"]["degradations"]] == ["rewrite"]


class DescribeRouting:
    @pytest.mark.parametrize("text", ["你好，谢谢！", "Good morning!"])
    def it_searches_nothing_for_small_talk(self, client, served, text):
        answer = ask(client, text, understand={"router": "rules"}, context={})
        assert (answer["chunks"], answer["context"]["text"], answer["query"]["route"]) == ([], "", None)
        assert (answer["stats"]["degraded"], answer["stats"]["fallback"]) == (False, None)
        assert answer["stats"]["remarks"] == ["nothing was searched: small talk"]
        assert served.model.seen("chat") == []

    def it_looks_for_codes_by_their_words_alone(self, client, served):
        answer = ask(client, "PPR-9087", understand={"router": "rules"})
        assert (answer["query"]["route"], answer["query"]["channels"]) == ("full_text", ["keyword"])
        assert found_documents(answer) == ["torque"]
        assert served.model.seen("chat") == []

    def it_asks_the_model_where_the_rules_are_not_sure(self, client, served):
        served.model.by_prompt[ROUTE] = says('{"route": "semantic", "rerank": false}')
        answer = ask(client, "router reset", understand={"router": "llm", "expand": 0})
        assert (answer["query"]["route"], answer["query"]["channels"]) == ("semantic", ["semantic"])
        assert len(served.model.seen("chat")) == 1
