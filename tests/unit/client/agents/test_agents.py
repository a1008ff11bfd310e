"""Tool, recall agent and adapters without a server behind them, or with one that says little."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from chordwise import AsyncChordwise, Chordwise, InvalidInput, NotConfigured
from chordwise.agent_response import intermediate_chunks, retrieval_step, with_retrieval
from chordwise.agents.asker import Asker
from chordwise.agents.knowledge import Knowledge, tool_schema
from chordwise.agents.passages import passage_metadata
from chordwise.api.queries import Hit
from chordwise.example_step import LONGEST_QUESTION, awith_examples, question_of, with_examples
from chordwise.recall_agent import RecallAgent, recall_request
from chordwise.tools import NOTHING_FOUND, KnowledgeTool
from tests.support.clients.answered import answered
from tests.support.repository.project import CLIENT_PROJECT
from tests.support.servers.gateway_stub import KEY, GatewayStub, problem, serve

ROOT = Path(__file__).parents[4]


@pytest.fixture
def stub() -> Iterator[GatewayStub]:
    with serve() as running:
        running.documents["kb"] = {"d1": {"document_id": "d1", "title": "Tea", "text": "green tea"}}
        running.documents["faq"] = {}
        yield running


def asked(stub: GatewayStub) -> dict[str, object]:
    return dict(stub.received[-1].json())


class DescribeAsker:
    def it_makes_one_client_for_all_threads_and_closes_it_when_forgotten(self, stub):
        asker = Asker(url=stub.url, api_key=KEY)
        threads = [threading.Thread(target=asker.ask, args=("tea",), kwargs={"namespace": "kb"}) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(stub.received) == 4
        del asker
        gc.collect()  # a socket that nobody closes is a warning, and a warning fails a test

    async def it_makes_one_client_for_each_loop(self, stub):
        asker = Asker(url=stub.url, api_key=KEY)

        async def once() -> int:
            found = await asker.aask("tea", namespace="kb")
            await asker.aclose()
            return len(found.chunks)

        found = await asyncio.gather(once(), *(asyncio.to_thread(asyncio.run, once()) for _ in range(3)))
        assert found == [1, 1, 1, 1]

    def it_keeps_no_client_of_a_loop_that_is_closed(self, stub):
        assert run(_MANY_LOOPS.format(url=stub.url, key=KEY)) == "1\n"

    async def it_uses_what_it_is_given_and_leaves_it_open(self, stub):
        with Chordwise(stub.url, KEY) as client:
            asker = Asker(client=client)
            assert len((await asker.aask("tea", namespace="kb")).chunks) == 1
            asker.close()
            assert len(asker.ask("tea", namespace="kb").chunks) == 1
        async with AsyncChordwise(stub.url, KEY) as shared:
            asker = Asker(async_client=shared)
            await asker.aask("tea", namespace="kb")
            await asker.aclose()
            await asker.aask("tea", namespace="kb")
            with pytest.raises(InvalidInput, match="await"):
                asker.ask("tea", namespace="kb")

    def it_needs_a_server_only_when_it_asks(self, monkeypatch):
        monkeypatch.delenv("CHORDWISE_URL", raising=False)
        asker = Asker()
        with pytest.raises(NotConfigured):
            asker.ask("tea", namespace="kb")


class DescribeKnowledge:
    def it_offers_a_choice_of_namespaces_only_where_there_is_one(self):
        assert "namespaces" not in tool_schema(Knowledge("kb"))["properties"]
        several = tool_schema(Knowledge(["kb", "faq", "kb"]))["properties"]["namespaces"]
        assert several["items"]["enum"] == ["kb", "faq"]

    def it_asks_what_is_bound_unless_the_call_says_otherwise(self):
        knowledge = Knowledge(["kb", "faq"], retrieve={"top_k": 3, "method": "hybrid", "fusion": {"k": 20}})
        wanted = knowledge.asked("x", None, {"top_k": 5, "rerank": False}, None)
        assert wanted["namespaces"] == ("kb", "faq")
        assert (wanted["top_k"], wanted["rerank"]) == (5, False)
        assert wanted["retrieve"] == {"method": "hybrid", "fusion": {"k": 20}}
        assert knowledge.within("faq").asked("x", None, None, None)["namespaces"] == ("faq",)

    def it_adds_filters_and_takes_none_away(self):
        bound = Knowledge("kb", filters={"tags": ["a"], "metadata": {"unit": "b"}, "type": "note"})
        wanted = bound.asked(
            "x", None, None, {"tags": ["c"], "metadata": {"unit": "x", "y": 1}, "type": "z", "author": "q"}
        )
        assert wanted["filters"] == {
            "tags": ["a", "c"], "metadata": {"unit": "b", "y": 1}, "type": "note", "author": "q",
        }  # fmt: skip

    def it_hands_on_tags_that_are_none_for_the_server_to_refuse(self):
        wanted = Knowledge("kb", filters={"tags": "a"}).asked("x", None, None, {"tags": ["a", ["b"], {"c": 1}]})
        assert wanted["filters"] == {"tags": ["a", ["b"], {"c": 1}]}

    @pytest.mark.parametrize("namespaces", [[], "", [None], [""], [["kb"]]])
    def it_is_over_something(self, namespaces):
        with pytest.raises(InvalidInput):
            Knowledge(namespaces)


_MISSING = {
    "import chordwise.langchain": ("langchain_core", "langchain"),
    "import chordwise.langgraph": ("langchain_core", "langgraph"),
    "import chordwise.llamaindex": ("llama_index", "llamaindex"),
    "from chordwise.tools import KnowledgeTool; KnowledgeTool('kb').langchain()": ("langchain_core", "langchain"),
    "from chordwise.tools import KnowledgeTool; KnowledgeTool('kb').llamaindex()": ("llama_index", "llamaindex"),
}
_ELSEWHERE = {"faq": {"weight": 1, "options": {"namespaces": ["faq"]}}}


class DescribeTheTool:
    def it_is_told_of_in_the_words_of_model_services(self, stub):
        tool = KnowledgeTool("kb", name="look", url=stub.url, api_key=KEY)
        assert tool.openai()["function"]["parameters"] == tool.anthropic()["input_schema"] == tool.parameters
        assert tool.openai()["function"]["name"] == tool.anthropic()["name"] == "look"
        assert tool.run(json.dumps({"query": "tea", "filters": {"type": None}})).startswith("### 1. Tea")
        assert asked(stub) == {"query_text": "tea", "namespaces": ["kb"]}
        assert tool("nothing") == NOTHING_FOUND

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            ("{", "not a JSON object"),
            ("[]", "not a JSON object"),
            ("{}", "query must be a text"),
            ({"query": 5}, "query must be a text"),
            ({"query": "tea", "namespaces": ["faq"]}, "faq cannot be searched here, only kb"),
            ({"query": "tea", "namespaces": 5}, "namespaces must be"),
            ({"query": "tea", "namespaces": [["kb"]]}, "name at least one namespace"),
            ({"query": "tea", "namespaces": [{"name": "kb"}]}, "name at least one namespace"),
            ({"query": "tea", "retrieve": [1]}, "retrieve must be an object"),
            ({"query": "tea", "retrieve": {"channels": _ELSEWHERE}}, "retrieve takes no channels here"),
            ({"query": "tea", "retrieve": {"top_k": 1, "fusion": {"k": 1}}}, "retrieve takes no fusion here"),
            ({"query": "tea", "retrieve": {"rerank": {"model": "x"}}}, "rerank must be true or false"),
            ({"query": "tea", "tenant_id": "x"}, "unknown argument tenant_id"),
        ],
    )
    async def it_tells_a_model_what_was_wrong(self, stub, arguments, told):
        with Chordwise(stub.url, KEY) as client:
            tool = KnowledgeTool(["kb"], client=client)
            assert told in tool.run(arguments)
            assert told in await tool.arun(arguments)
        assert stub.received == []

    async def it_tells_a_model_that_the_server_refused(self, stub):
        stub.next.extend([problem(404, "namespace_not_found", "There is no namespace kb.")] * 2)
        tool = KnowledgeTool(["kb"], url=stub.url, api_key=KEY)
        assert "There is no namespace kb" in tool.run({"query": "tea"})
        assert "There is no namespace kb" in await tool.arun({"query": "tea"})
        await tool.aclose()


class DescribeTheRecallAgent:
    def it_says_who_asks_and_hands_on_its_options(self, stub):
        with Chordwise(stub.url, KEY) as client:
            agent = RecallAgent("kb", client=client, profile="default", extra={"deadline_ms": 900})
            found = agent({"query": "tea", "session_id": "s", "experiment_id": "x", "trace_id": "t-1", "top_k": 2})
        assert stub.received[0].headers["x-request-id"] == "t-1"
        assert asked(stub) == {
            "query_text": "tea", "namespaces": ["kb"], "top_k": 2, "profile": "default", "deadline_ms": 900,
            "session_id": "s", "experiment_id": "x",
        }  # fmt: skip
        assert (found.hits[0].content, found.trace_id, found.experiment_id) == ("green tea", "t-1", "x")

    @pytest.mark.parametrize(
        ("bound", "wanted", "asks"), [({}, {}, 5), ({"top_k": 20}, {}, 20), ({"top_k": 20}, {"top_k": 2}, 2)]
    )
    def it_gives_as_many_as_the_request_says_or_the_agent(self, stub, bound, wanted, asks):
        with Chordwise(stub.url, KEY) as client:
            RecallAgent("kb", client=client, **bound)({"query": "tea", **wanted})
        assert asked(stub)["top_k"] == asks

    @pytest.mark.parametrize("request_", [{}, {"query": " "}, {"query": 5}])
    def it_asks_nothing_of_nothing(self, request_):
        with pytest.raises(InvalidInput, match="query of the request is empty"):
            recall_request(request_)

    def it_refuses_an_id_that_no_header_holds(self, stub):
        with Chordwise(stub.url, KEY) as client, pytest.raises(InvalidInput, match="visible ASCII"):
            RecallAgent("kb", client=client).invoke({"query": "x", "trace_id": "一\r\nX: y"})
        assert stub.received == []


class DescribeTheStep:
    async def it_is_the_same_awaited(self, stub):
        wanted = {"query_text": "green", "keywords": ["tea"]}
        with Chordwise(stub.url, KEY) as client:
            called = with_examples(client, wanted, namespaces="kb")
        async with AsyncChordwise(stub.url, KEY) as shared:
            assert await awith_examples(shared, wanted, namespaces="kb") == called
            stub.next.append(problem(422, "invalid_request", "no"))
            assert (await awith_examples(shared, wanted, namespaces="kb"))["retrieved_examples"] == []
        assert [each["content"] for each in called["retrieved_examples"]] == ["green tea"]

    def it_asks_no_more_than_a_server_takes(self):
        assert len(question_of({"query_text": "长" * 20_000, "keywords": ["x"]})) == LONGEST_QUESTION
        assert question_of(["no mapping"], "said") == "said"


class DescribeWhatIsHandedOn:
    def it_names_the_source_a_document_has(self):
        hit = answered(
            Hit,
            chunk_id="c",
            document_id="d",
            namespace="kb",
            metadata={"source_uri": "file:a", "score": "mine"},
            score=0.5,
        )
        known = passage_metadata(hit, "q")
        assert (known["source"], known["score"], known["query_id"]) == ("file:a", 0.5, "q")
        assert (
            passage_metadata(answered(Hit, chunk_id="c", document_id="d", metadata={"source": "own"}), "q")["source"]
            == "own"
        )
        assert "title" not in passage_metadata(answered(Hit, chunk_id="c", document_id="d"), "q")

    @pytest.mark.parametrize("nothing", [None, {}, {"chunks": None, "stats": 5}, {"chunks": [None]}])
    def it_takes_nothing_for_an_answer(self, nothing):
        assert intermediate_chunks(nothing) == []
        assert retrieval_step(nothing) == {"step": "retrieval", "status": "missing", "degraded": False}
        told = with_retrieval({"data": None, "ok": 1}, nothing)
        assert (told["ok"], told["data"]["intermediate_chunks"]) == (1, [])


@pytest.fixture(scope="module")
def told() -> dict[str, str]:
    """Return the error of each statement that needs a framework; all others succeed."""
    names = "chordwise, chordwise.tools, chordwise.recall_agent, chordwise.example_step, chordwise.agent_response"
    return dict(json.loads(run(_WITHOUT.format(names=names, statements=list(_MISSING)))))


class DescribeExtras:
    """In a process of its own, in which the frameworks cannot be imported."""

    @pytest.mark.parametrize("statement", _MISSING)
    def it_names_the_command_that_installs_what_is_missing(self, told, statement):
        package, extra = _MISSING[statement]
        said, _, command = told[statement].partition(": ")
        assert said == f"chordwise.{extra} needs the package {package}"
        (requirement,) = CLIENT_PROJECT["project"]["optional-dependencies"][extra]
        assert command == f"pip install '{requirement}' (the extra {extra} of chordwise-client)"


_MANY_LOOPS = """
import asyncio, gc
from chordwise import AsyncChordwise
from chordwise.agents.asker import Asker
asker = Asker(url={url!r}, api_key={key!r})
for _ in range(5):
    asyncio.run(asker.aask("tea", namespace="kb"))
gc.collect()
print(sum(isinstance(each, AsyncChordwise) for each in gc.get_objects()))
"""

_WITHOUT = """
import importlib.abc, json, sys
class Without(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in ('langchain_core', 'langgraph', 'llama_index'):
            raise ModuleNotFoundError(f'No module named {{name!r}}', name=name.partition('.')[0])
sys.meta_path.insert(0, Without())
import {names}
told = {{}}
for statement in {statements!r}:
    try:
        exec(statement)
    except ImportError as error:
        told[statement] = str(error)
print(json.dumps(told))
"""


def run(program: str) -> str:
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout
