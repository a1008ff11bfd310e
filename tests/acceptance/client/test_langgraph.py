"""The retrieval node in a real graph: what it reads, what it writes, and that nothing stops the agent."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import ToolNode
from pydantic import BaseModel

from chordwise.langgraph import RetrievalNode
from chordwise.prompting import NO_EXAMPLES, format_for_prompt
from chordwise.tools import Knowledge, KnowledgeTool
from pipeline.resources import Resources
from tests.support.corpora.shelf import ENERGY, HIDDEN, WIND, Shelf, shelf

QUESTION = "which turbine drives a generator"
_POOR: list[dict[str, Any]] = [
    {"prompt_vars": None},
    {"prompt_vars": []},
    {"prompt_vars": {"query_text": 5, "keywords": "x"}},
    {"history_messages": "x"},
    {"history_messages": [None, 3, {}]},
    {"messages": [("ai", "only me")]},
]


class FlowState(TypedDict, total=False):
    """The state of an agent whose history adds up."""

    history_messages: Annotated[list[Any], operator.add]
    prompt_vars: dict[str, Any]
    prompt: str


class Typed(BaseModel):
    """The same as an object."""

    messages: list[Any] = []
    prompt_vars: dict[str, Any] = {}


@pytest.fixture(scope="module")
def library(use: Resources) -> Iterator[Shelf]:
    with shelf(use) as found:
        yield found


@pytest.fixture
async def node(library: Shelf) -> AsyncIterator[RetrievalNode]:
    made = RetrievalNode([ENERGY], profile=None, url=library.url, api_key=library.key)
    yield made
    await made.aclose()


def graph_of(node: RetrievalNode) -> Any:
    def prompt(state: FlowState) -> FlowState:
        return {"prompt": "examples:\n{retrieved_examples}".format(**format_for_prompt(state.get("prompt_vars")))}

    graph = StateGraph(FlowState)
    graph.add_node("retrieval_node", node)
    graph.add_node("prompt", prompt)
    graph.add_edge(START, "retrieval_node")
    graph.add_edge("retrieval_node", "prompt")
    graph.add_edge("prompt", END)
    return graph.compile()


class DescribeTheNodeInAGraph:
    async def it_puts_examples_between_two_steps_of_an_agent(self, node):
        state = {
            "history_messages": [HumanMessage("hello"), AIMessage("how can I help?")],
            "prompt_vars": {"query_text": QUESTION, "keywords": ["gearbox"], "other": 1},
        }
        called = await asyncio.to_thread(graph_of(node).invoke, state)
        awaited = await graph_of(node).ainvoke(state)
        assert called == awaited
        assert called["history_messages"] == state["history_messages"]
        assert called["prompt_vars"]["other"] == 1
        assert called["prompt_vars"]["retrieved_examples"][0]["content"] == WIND
        assert called["prompt"].startswith(f"examples:\n示例1：\n{WIND}")

    async def it_asks_what_the_user_said_last_where_nobody_made_a_query_of_it(self, node):
        history = [HumanMessage(QUESTION), AIMessage("falling water?")]
        found = await graph_of(node).ainvoke({"history_messages": history})
        assert found["prompt_vars"]["retrieved_examples"][0]["metadata"]["type"] == "note"
        assert found["prompt_vars"]["retrieved_examples"][0]["content"] == WIND

    async def it_goes_on_without_examples(self, library):
        away = RetrievalNode(ENERGY, profile=None, url="http://127.0.0.1:9", api_key="cw_nobody", timeout=1)
        elsewhere = RetrievalNode("nowhere", profile=None, url=library.url, api_key=library.key)
        for node in (away, elsewhere):
            found = await graph_of(node).ainvoke({"prompt_vars": {"query_text": QUESTION}})
            assert found["prompt_vars"] == {"query_text": QUESTION, "retrieved_examples": []}
            assert found["prompt"].endswith(NO_EXAMPLES)
            await node.aclose()


class DescribeTheNodeAsAFunction:
    def it_gives_the_whole_state(self, node):
        state = {"prompt_vars": {"query_text": QUESTION}, "other": [1]}
        after = node(state)
        assert after["other"] == [1]
        assert after["prompt_vars"]["retrieved_examples"][0]["content"] == WIND
        assert state == {"prompt_vars": {"query_text": QUESTION}, "other": [1]}

    def it_reads_objects_too(self, node):
        state = Typed(messages=[{"role": "user", "content": [{"type": "text", "text": QUESTION}]}])
        assert node(state)["prompt_vars"]["retrieved_examples"][0]["content"] == WIND

    @pytest.mark.parametrize("state", [None, {}, [], *_POOR])
    def it_takes_whatever_is_there(self, node, state):
        assert node(state)["prompt_vars"]["retrieved_examples"] == []


class DescribeTheToolInAGraph:
    async def it_is_called_by_the_tool_node(self, library):
        tool = KnowledgeTool(Knowledge([ENERGY], retrieve={"top_k": 1}), url=library.url, api_key=library.key)
        wanted = [
            {"name": tool.name, "args": {"query": QUESTION}, "id": "1"},
            {"name": tool.name, "args": {"query": QUESTION, "namespaces": [HIDDEN]}, "id": "2"},
        ]
        graph = StateGraph(Typed)
        graph.add_node("tools", ToolNode([tool.langchain()]))
        graph.add_edge(START, "tools")
        answer = await graph.compile().ainvoke({"messages": [AIMessage("", tool_calls=wanted)]})
        await tool.aclose()
        told = {message.tool_call_id: message.content for message in answer["messages"]}
        assert WIND in told["1"]
        assert "secret" not in told["2"]
        assert "hidden cannot be searched here" in told["2"]
