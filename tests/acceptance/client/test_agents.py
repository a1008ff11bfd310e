"""The tool with bound namespaces, the recall agent and the agent's response, against the running stack."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator

import pytest

from chordwise import Chordwise, InvalidInput, ProblemError
from chordwise.agent_response import with_retrieval
from chordwise.recall_agent import RecallAgent, RecallRequest
from chordwise.tools import NOTHING_FOUND, Knowledge, KnowledgeTool
from tests.support.corpora.shelf import DRINKS, ENERGY, HIDDEN, WIND, Shelf

QUESTION = "which turbine drives a generator"


@pytest.fixture
def client(library: Shelf) -> Iterator[Chordwise]:
    with Chordwise(*library) as found:
        yield found


@pytest.fixture(scope="module")
def machines(library: Shelf) -> str:
    """A namespace of Chinese notes that all answer the same vague questions."""
    notes = {
        "pump": "水泵应当每月检查一次轴承，注意密封圈的磨损。",
        "router": "路由器应当放在通风的地方，注意散热，长按按钮恢复出厂设置。",
        "oven": "烤箱应当先预热十分钟，注意不要用湿抹布擦玻璃门。",
    }
    with Chordwise(*library) as client:
        sent = client.ingest(
            ({"document_id": name, "text": text} for name, text in notes.items()), namespace="machines"
        )
        assert client.wait(sent, timeout=60).status == "succeeded"
    return "machines"


class DescribeTheTool:
    def it_answers_a_model_in_markdown(self, client):
        tool = KnowledgeTool(Knowledge(ENERGY, retrieve={"top_k": 2, "method": "hybrid"}), client=client)
        told = tool.run(json.dumps({"query": QUESTION}))
        assert told.startswith(f"### 1. Wind power\n\n{WIND}\n\n> `energy/wind`")
        assert told.count("### ") == 2
        assert tool(QUESTION, retrieve={"top_k": 1}).count("### ") == 1
        assert asyncio.run(tool.arun({"query": QUESTION})) == told

    def it_never_leaves_its_namespaces(self, client):
        tool = KnowledgeTool([ENERGY, DRINKS], client=client)
        assert "secret" in KnowledgeTool(HIDDEN, client=client)(QUESTION)
        for arguments in ({"query": QUESTION}, {"query": QUESTION, "namespaces": [DRINKS]}):
            assert "secret" not in tool.run(arguments)
        assert "secret" not in tool.run({"query": QUESTION, "namespaces": [ENERGY, HIDDEN]})
        with pytest.raises(InvalidInput, match="hidden cannot be searched here, only energy, drinks"):
            tool(QUESTION, namespaces=HIDDEN)
        with pytest.raises(InvalidInput):
            tool.knowledge.within(HIDDEN)

    def it_keeps_the_filters_it_is_bound_to(self, client):
        bound = Knowledge(ENERGY, retrieve={"method": "full_text"}, filters={"metadata": {"unit": "b"}})
        tool = KnowledgeTool(bound, client=client)
        assert "Water power" not in tool("turbine power", filters={"metadata": {"unit": "a"}})
        assert "Wind power" in tool("turbine power", filters={"type": "note"})
        assert tool("turbine power", filters={"type": "manual"}) == NOTHING_FOUND

    def it_tells_the_model_what_the_server_refuses(self, client):
        tool = KnowledgeTool(ENERGY, client=client)
        assert "/retrieve/score_threshold" in tool.run({"query": "x", "retrieve": {"score_threshold": "high"}})
        with pytest.raises(ProblemError):
            tool("x", retrieve={"score_threshold": "high"})


class DescribeTheRecallAgent:
    def it_gives_hits_with_source_confidence_and_reason(self, client):
        agent = RecallAgent([ENERGY], client=client)
        trace_id = f"trace-{uuid.uuid4().hex}"
        result = agent.invoke(RecallRequest(query=QUESTION, session_id="s", trace_id=trace_id, top_k=2))
        first = result.hits[0]
        assert (first.content, first.metadata["document_id"], len(result.hits)) == (WIND, "wind", 2)
        assert first.source == "both"
        assert 0 < first.confidence <= 1
        assert first.reason
        assert (result.trace_id, result.degraded) == (trace_id, False)
        assert result.latency_ms > 0

    def it_takes_mappings_prepares_them_and_can_be_awaited(self, client):
        def prepare(request: RecallRequest) -> RecallRequest:
            return RecallRequest(query=f"{(request.context or [''])[-1]} {request.query}", top_k=1)

        agent = RecallAgent([ENERGY, DRINKS], client=client, prepare=prepare)
        told = {"query": "用多少度的水", "context": ["我想喝绿茶"], "user_profile": None, "unknown": 1}
        assert agent(told).hits[0].metadata["document_id"] == "tea"
        called, awaited = agent.invoke(told), asyncio.run(agent.ainvoke(told))
        assert [each.content for each in called.hits] == [each.content for each in awaited.hits]

    @pytest.mark.parametrize(
        ("query", "context", "profile", "found"),
        [
            ("And what does that produce?", ["user: tell me about photovoltaic panels", "assistant: Gladly."], None, "solar"),
            ("那应当注意什么呢？", ["用户：我家的路由器", "助手：好的。"], None, "router"),
            ("那应当注意什么呢？", ["用户：我家的烤箱", "助手：好的。"], None, "oven"),
            ("Anything new?", None, {"interests": ["floating bodies"]}, "waves"),
            ("有什么新的吗？", None, {"name": "李雷", "preferences": ["烤箱"]}, "oven"),
            ("有什么新的吗？", None, {"name": "李雷", "role": "水泵"}, "pump"),
        ],
    )  # fmt: skip
    def it_reads_the_conversation_and_the_profile_without_code_of_the_callers(
        self, client, machines, query, context, profile, found
    ):
        agent = RecallAgent([ENERGY, machines], client=client)
        told = agent({"query": query, "top_k": 1, "context": context, "user_profile": profile})
        assert [hit.metadata["document_id"] for hit in told.hits] == [found]

    def it_says_which_request_it_was(self, client):
        with pytest.raises(ProblemError) as refused:
            RecallAgent("nowhere", client=client).invoke({"query": "x", "trace_id": "trace-of-mine"})
        assert refused.value.request_id == "trace-of-mine"
        with pytest.raises(InvalidInput):
            RecallAgent(ENERGY, client=client).invoke({"trace_id": "t"})


class DescribeTheResponseOfAnAgent:
    def it_carries_the_retrieval_as_a_step_with_its_passages(self, client):
        answer = client.query(QUESTION, namespace=ENERGY, fresh=True)
        told = with_retrieval({"ok": True, "data": {"answer": "…", "intermediate_steps": [{"step": "plan"}]}}, answer)
        plan, step = told["data"]["intermediate_steps"]
        assert (plan, step["step"], step["query_id"]) == ({"step": "plan"}, "retrieval", answer.query_id)
        assert step["latency_ms"]["total"] > 0
        assert set(step["source_share"]) == {"keyword", "semantic"}
        first = told["data"]["intermediate_chunks"][0]
        assert (first["rank"], first["document_id"], first["text"]) == (1, "wind", WIND)
        assert {each["channel"] for each in first["sources"]} == {"keyword", "semantic"}
        assert (told["ok"], told["data"]["answer"]) == (True, "…")
