"""Understanding on the real stores and Redis, with a model service of the test's own."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson
import pytest

from pipeline.embedding.reference_sentences import SPACED, UNSPACED
from pipeline.query.plan import ChannelPlan, Plan, RerankPlan, RetrievePlan, SecondRetrievalPlan, UnderstandPlan
from pipeline.query.request import Query
from pipeline.records import Namespace, QueryId, TenantId
from pipeline.resources import Resources
from pipeline.retrieval.answer_query import answer, recall
from pipeline.retrieval.make_channels import make_channels
from pipeline.retrieval.understand import understand, understand_at_once
from pipeline.settings import Settings
from tests.conftest import make_tenant
from tests.support.corpora.queries import query_of
from tests.support.servers.openai_answers import hangs, refused, says
from tests.support.servers.openai_server import OpenAIServer
from tests.support.stacks.served import served_on, tables_for_served

TEXTS = [
    "Hold the button for ten seconds to reset the router.",
    "Factory defaults of the gateway device come back with a paper clip.",
    "Green tea is brewed at eighty degrees.",
]
SUB_QUERY = "factory defaults of a gateway device"


class Asking:
    """One tenant's documents, and queries as gateway and workers run them, without the messages between them."""

    def __init__(self, use: Resources, service: OpenAIServer, tenant: TenantId) -> None:
        self.use, self.service, self.tenant = use, service, tenant
        self.channels = make_channels(use)

    def query(self, text: str, understand: UnderstandPlan | None = None, **fields: Any) -> Query:
        patient = {"timeout_ms": 2000}  # a busy machine is not what is tested here
        both = {"keyword": ChannelPlan(weight=0.7, **patient), "semantic": ChannelPlan(weight=0.3, **patient)}
        query = query_of(
            text,
            query_id=QueryId(str(uuid.uuid4())),
            tenant_id=self.tenant,
            namespaces=(Namespace("kb"),),
            plan=Plan(
                retrieve=RetrievePlan(channels=both),
                rerank=RerankPlan(enabled=False),
                understand=understand or UnderstandPlan(),
            ),
            deadline_s=10.0,
        )
        return replace(query, **fields)

    def ask(self, query: Query) -> tuple[Query, dict[str, Any]]:
        """The query as the gateway sent it, and the answer."""
        sent = understand_at_once(query, self.use)
        queries = self.use.queries(self.tenant)
        queries.open(sent)
        model = threading.Thread(target=understand, args=(sent.tenant_id, sent.query_id, self.use))
        if sent.model_steps:
            model.start()
        for channel in sent.channels:
            recall(sent.tenant_id, sent.query_id, self.channels[channel], self.use)
        assert answer(sent.tenant_id, sent.query_id, self.use, self.channels)
        if sent.model_steps:
            model.join()
        state = queries.state(sent.query_id)
        assert state is not None
        assert state.answer is not None
        return sent, orjson.loads(state.answer)


@pytest.fixture(scope="module")
def tables(settings: Settings) -> Iterator[Settings]:
    with tables_for_served(settings, llm_model="a-language-model") as found:
        yield found


@pytest.fixture
def asking(tables: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asking]:
    with served_on(tables, monkeypatch) as served:
        job = served.work(served.submit(TEXTS))
        assert job.succeeded == len(TEXTS)
        served.service.requests.clear()
        assert served.use.rewriter, "a worker has loaded the client of the service before its first query"
        yield Asking(served.use, served.service, served.tenant)


def documents(found: dict[str, Any]) -> list[str]:
    return [chunk["document_id"] for chunk in found["chunks"]]


class DescribeAnExpandedQuery:
    def it_has_all_wordings_embedded_in_one_request(self, asking):
        asking.service.by_prompt["查询扩展员"] = says(json.dumps([SUB_QUERY, "reboot modem", "restore wifi box"]))
        asking.ask(asking.query("reset router"))
        assert [len(body["input"]) for body in asking.service.seen("embeddings")] == [
            1 + len(SPACED) + len(UNSPACED),
            3,
        ]

    def it_is_understood_once_for_any_number_of_namespaces(self, asking):
        asking.service.by_prompt["查询扩展员"] = says(json.dumps([SUB_QUERY]))
        several = tuple(Namespace(name) for name in ("kb", "other", "third"))
        _, found = asking.ask(asking.query("reset router", namespaces=several))
        assert len(asking.service.seen("chat")) == 1
        assert "d1" in documents(found)

    def it_remembers_what_the_model_said_for_this_tenant_only(self, asking):
        asking.service.by_prompt["查询扩展员"] = says(json.dumps([SUB_QUERY]))
        _, first = asking.ask(asking.query("reset router"))
        sent, again = asking.ask(asking.query("reset router"))
        assert (sent.model_steps, len(asking.service.seen("chat"))) == ((), 1)
        assert documents(again) == documents(first)
        assert again["stats"]["expanded_queries"] == [SUB_QUERY]
        assert not again["stats"]["degraded"]
        assert asking.ask(asking.query("reset router", UnderstandPlan(expand=3)))[0].model_steps == ("expand",)
        stranger = asking.query("reset router", tenant_id=make_tenant(asking.use)[0])
        assert understand_at_once(stranger, asking.use).model_steps == ("expand",)

    def it_does_not_remember_failures(self, asking):
        asking.service.by_prompt["查询扩展员"] = refused(500)
        asking.ask(asking.query("reset router"))
        assert asking.ask(asking.query("reset router"))[0].model_steps == ("expand",)


class DescribeEveryStep:
    EVERYTHING = UnderstandPlan(router="llm", rewrite=True, keywords=True, entities=True, hyde=True)

    def it_takes_what_each_prompt_brings_side_by_side(self, asking):
        service = asking.service
        service.by_prompt["查询扩展员"] = says(json.dumps(["bring the wifi box back to life"]))
        service.by_prompt["查询分析员"] = says(
            '{"expanded_query": "reset a router", "keywords": ["paper clip"], "entity_mentions": ["Archer"]}'
        )
        service.by_prompt["调度员"] = says('{"route": "hybrid", "rerank": true}')
        service.by_prompt["假想文档"] = says('{"passage": "Press the button for ten seconds."}')
        _, found = asking.ask(asking.query("router reset", self.EVERYTHING))
        assert len(service.seen("chat")) == 4
        assert found["query"]["rewritten"] == "reset a router"
        assert (found["query"]["keywords"], found["query"]["entities"]) == (["paper clip"], ["Archer"])
        assert found["query"]["route"] == "hybrid"
        assert set(documents(found)[:2]) == {"d0", "d1"}  # the keyword "paper clip" found the second
        assert not found["stats"]["degraded"]

    def it_names_each_step_that_was_lost_and_keeps_the_others(self, asking):
        asking.service.by_prompt["查询扩展员"] = says(json.dumps([SUB_QUERY]))
        asking.service.by_prompt["查询分析员"] = refused(500)
        asking.service.by_prompt["调度员"] = says("nowhere")
        asking.service.by_prompt["假想文档"] = hangs()
        _, found = asking.ask(asking.query("router reset", self.EVERYTHING))
        assert sorted(lost["part"] for lost in found["stats"]["degradations"]) == ["hyde", "rewrite", "route"]
        assert found["stats"]["expanded_queries"] == [SUB_QUERY]
        assert found["query"]["keywords"] == ["router", "reset"]  # its own words

    def it_answers_nothing_where_the_model_finds_nothing_asked(self, asking):
        asking.service.by_prompt["调度员"] = says('{"route": "none"}')
        _, found = asking.ask(asking.query("lovely weather", UnderstandPlan(router="llm", expand=0)))
        assert (found["chunks"], found["query"]["route"], found["stats"]["degraded"]) == ([], None, False)
        assert found["stats"]["remarks"] == ["nothing was searched: the model's choice"]


class DescribeASecondRetrieval:
    """Three documents are less than the ten that are wanted."""

    @staticmethod
    def ask_again(asking: Asking, text: str, understand: UnderstandPlan) -> dict[str, Any]:
        query = asking.query(text, understand, cache_key="a-key")
        retrieve = replace(query.plan.retrieve, second=SecondRetrievalPlan(min_hits=10, expand=True))
        return asking.ask(replace(query, plan=replace(query.plan, retrieve=retrieve)))[1]

    @staticmethod
    def is_cached(asking: Asking) -> bool:
        return asking.use.queries(asking.tenant).cached_answer("a-key") is not None

    @pytest.mark.parametrize("text", ["reset router", "重置路由器"])
    def it_names_an_expansion_that_failed_and_does_not_cache_the_answer(self, asking, text):
        asking.service.by_prompt["查询扩展员"] = refused(500)
        found = self.ask_again(asking, text, UnderstandPlan(expand=0, budget_ms=3000))
        assert [lost["part"] for lost in found["stats"]["degradations"]] == ["expand"]
        assert found["stats"]["degradations"][0]["code"] in {"rewriter_unavailable", "timeout"}
        assert (found["status"], found["stats"]["second"]["changed"]) == ("succeeded", {})
        assert not self.is_cached(asking)

        asking.service.by_prompt["查询扩展员"] = says(json.dumps([SUB_QUERY]))
        found = self.ask_again(asking, text, UnderstandPlan(expand=0, budget_ms=3000))
        assert (found["stats"]["degraded"], found["stats"]["second"]["changed"]) == (False, {"expand": True})
        assert "d1" in documents(found)
        assert self.is_cached(asking)

    def it_routes_nothing(self, asking):
        asking.service.by_prompt["查询扩展员"] = says(json.dumps([SUB_QUERY]))
        off = UnderstandPlan(enabled=False, router="rules", budget_ms=3000)
        found = self.ask_again(asking, "passages similar to a router reset", off)
        assert found["stats"]["second"]["changed"] == {"expand": True}
        assert set(found["stats"]["hits"]) == {"keyword", "semantic"}
        assert found["stats"]["remarks"] == []

    def it_asks_the_model_for_nothing_but_sub_queries(self, asking):
        asking.service.by_prompt["查询扩展员"] = says(json.dumps([SUB_QUERY]))
        off = UnderstandPlan(enabled=False, router="llm", rewrite=True, hyde=True, budget_ms=3000)
        found = self.ask_again(asking, "reset router", off)
        assert found["stats"]["second"]["changed"] == {"expand": True}
        assert (len(asking.service.seen("chat")), found["stats"]["degraded"]) == (1, False)
