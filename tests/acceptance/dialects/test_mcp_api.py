"""MCP as agents meet it: the official client, over HTTP and over stdio, in both eras of the protocol."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import NamedTuple

import orjson
import pytest
from mcp import Client, MCPError

from pipeline.database.unit_of_work import unit_of_work
from pipeline.tenants.tenant_store import Tenants
from tests.conftest import gateway, make_tenant
from tests.support.clients.commands import called
from tests.support.clients.mcp_clients import CHORDWISE, ERAS, Era, agent, given, refused
from tests.support.corpora.documents import document, upload

READS = ["search", "fetch", "list_namespaces", "explain"]
WRITES = ["ingest", "job_status"]
TEXT = "\n\n".join(f"Paragraph {n} says that part {n} of the pump is made of steel." for n in range(400))
BASE = [
    document(
        "manuals/pump 1",
        "The alpha pump starts when the valve is open.",
        title="Pump manual",
        type="manual",
        tags=["wet"],
        metadata={"team": "blue"},
        source={"uri": "https://docs.example.com/pump", "media_type": "text/plain"},
    ),
    document("switch", "The beta pump starts when the switch is pressed."),
    document("long", TEXT, title="Parts"),
]


@pytest.fixture(scope="module")
def owner(use):
    """A tenant with documents: its id and a key for everything."""
    tenant_id, key = make_tenant(use)
    with gateway(key) as client:
        assert upload(client, "pumps", BASE)["succeeded"] == 3
        assert upload(client, "spoons", [document("spoon", "A spoon is made of silver.")])["succeeded"] == 1
    return tenant_id, key


@pytest.fixture(scope="module")
def key(owner):
    return owner[1]


@pytest.fixture(scope="module")
def reader(use, owner):
    """A key of the same tenant that may only read."""
    with unit_of_work(use.mysql) as work:
        return Tenants(work.connection, owner[0]).issue_key("reader", scopes=("read",))


class Door(NamedTuple):
    """One way in one era, the keys that go through it, and how an agent with one of them is connected."""

    era: Era
    key: str
    reader: str
    stranger: str
    agent: Callable[[str], AbstractAsyncContextManager[Client]]


async def speaks_the_newest_protocol_of_its_era(door: Door) -> None:
    async with door.agent(door.key) as client:
        assert client.protocol_version == ("2026-07-28" if door.era == "auto" else "2025-11-25")
        assert client.server_info.name == "chordwise"
        assert "search" in client.instructions


async def lists_the_same_tools_every_time_and_fewer_for_a_key_that_may_only_read(door: Door) -> None:
    async with door.agent(door.key) as client:
        first, again = await client.list_tools(), await client.list_tools()
    assert [tool.name for tool in first.tools] == READS + WRITES
    assert [tool.model_dump() for tool in first.tools] == [tool.model_dump() for tool in again.tools]
    async with door.agent(door.reader) as client:
        assert (await client.list_tools()).tools == first.tools[:4]
        assert "scope write" in await refused(client, "ingest", namespace="pumps", documents=[{"text": "x"}])


async def searches_reads_and_explains(door: Door) -> None:
    async with door.agent(door.key) as client:
        found = await given(client, "search", query="How does the alpha pump start?", namespaces=["pumps"])
        best = found["results"][0]
        assert (best["id"], best["title"]) == ("pumps/manuals/pump 1", "Pump manual")
        assert best["url"] == "https://docs.example.com/pump"
        assert best["text"] == best["passages"][0]["text"] == BASE[0]["text"]
        read = await given(client, "fetch", id=best["id"])
        assert set(read) == {"id", "title", "text", "url", "metadata"}
        assert (read["id"], read["text"], read["url"]) == (best["id"], BASE[0]["text"], best["url"])
        assert read["metadata"]["team"] == "blue"
        why = await given(client, "explain", query_id=found["query_id"])
        assert why["passages"][0]["chunk_id"] == best["passages"][0]["chunk_id"]
        assert "keyword: 1 of" in why["passages"][0]["reason"]


async def takes_documents_and_follows_their_job(door: Door) -> None:
    namespace = f"notes-{uuid.uuid4().hex[:8]}"
    note = {"document_id": "n1", "title": "A note", "text": f"The gamma pump hums in {namespace}."}
    async with door.agent(door.key) as client:
        job = await given(client, "ingest", namespace=namespace, documents=[note])
        done = await given(client, "job_status", job_id=job["job_id"], wait_s=30)
        assert (done["status"], done["succeeded"], done["errors"]) == ("succeeded", 1, [])
        found = await given(client, "search", query="gamma pump hums", namespaces=[namespace])
        assert [result["document_id"] for result in found["results"]] == ["n1"]
        job = await given(client, "ingest", namespace=namespace, documents=[note], on_conflict="error")
        failed = await given(client, "job_status", job_id=job["job_id"], wait_s=30)
        assert (failed["status"], len(failed["errors"])) == ("failed", 1)


async def shows_namespaces_as_resources(door: Door) -> None:
    async with door.agent(door.key) as client:
        resources = {each.name: each.uri for each in (await client.list_resources()).resources}
        assert resources["pumps"] == "chordwise://namespaces/pumps"
        [content] = (await client.read_resource(resources["pumps"])).contents
        assert {each["id"] for each in orjson.loads(content.text)["documents"]} == {
            "pumps/long",
            "pumps/manuals/pump 1",
            "pumps/switch",
        }
        templates = (await client.list_resource_templates()).resource_templates
        assert [template.name for template in templates] == ["namespace", "job"]
        with pytest.raises(MCPError, match="no namespace"):
            await client.read_resource("chordwise://namespaces/forks")
    async with door.agent(door.reader) as client:
        assert len((await client.list_resource_templates()).resource_templates) == 1


async def tells_a_tool_that_is_not_there_from_one_that_fails(door: Door) -> None:
    async with door.agent(door.key) as client:
        with pytest.raises(MCPError, match="There is no tool 'sing'; there are: search"):
            await client.call_tool("sing", {})
        sentence = await refused(client, "search", query=5, colour="red")
        assert sentence == "query must be a string; colour is not a known field. (invalid_arguments)"
        assert "no namespace forks" in await refused(client, "search", query="x", namespaces=["forks"])
        assert "no such document" in await refused(client, "fetch", id="pumps/nothing")


async def shows_nothing_of_another_tenant(door: Door) -> None:
    with gateway(door.key) as client:
        job_id = client.get("/v1/jobs").json()["data"][0]["job_id"]
    async with door.agent(door.key) as client:
        found = await given(client, "search", query="How does the alpha pump start?", namespaces=["pumps"])
    chunk_id = found["results"][0]["passages"][0]["chunk_id"]
    nobody = str(uuid.uuid4())
    async with door.agent(door.stranger) as stranger:
        assert (await given(stranger, "list_namespaces"))["namespaces"] == []
        assert (await given(stranger, "search", query="pump"))["results"] == []
        assert (await stranger.list_resources()).resources == []
        for tool, theirs, none in [
            ("search", {"query": "pump", "namespaces": ["pumps"]}, {"query": "pump", "namespaces": ["forks"]}),
            ("fetch", {"id": "pumps/switch"}, {"id": "forks/switch"}),
            ("fetch", {"id": chunk_id}, {"id": nobody}),
            ("explain", {"query_id": found["query_id"]}, {"query_id": nobody}),
            ("job_status", {"job_id": job_id}, {"job_id": nobody}),
        ]:
            said = await refused(stranger, tool, **theirs)
            assert said.replace("pumps", "forks") == await refused(stranger, tool, **none)
        for uri in ("chordwise://namespaces/pumps", f"chordwise://jobs/{job_id}"):
            with pytest.raises(MCPError, match="There is no"):
                await stranger.read_resource(uri)


PROMISES = [
    speaks_the_newest_protocol_of_its_era,
    lists_the_same_tools_every_time_and_fewer_for_a_key_that_may_only_read,
    searches_reads_and_explains,
    takes_documents_and_follows_their_job,
    shows_namespaces_as_resources,
    tells_a_tool_that_is_not_there_from_one_that_fails,
    shows_nothing_of_another_tenant,
]


class DescribeEveryWay:
    @pytest.mark.parametrize("era", [ERAS[0], pytest.param(ERAS[1], marks=pytest.mark.thorough)])
    @pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
    async def it_keeps_every_promise_over_http(self, use, key, reader, era, promise):
        await promise(Door(era, key, reader, make_tenant(use)[1], lambda of: agent(of, "http", era)))

    @pytest.mark.timeout(240)
    @pytest.mark.parametrize("era", ["auto", pytest.param("legacy", marks=pytest.mark.thorough)])
    async def it_keeps_them_all_over_standard_input_and_output(self, use, key, reader, era):
        """One process for each key, as an agent has it: starting one takes longer than everything it is asked."""
        async with AsyncExitStack() as running:
            started: dict[str, Client] = {}

            @asynccontextmanager
            async def connected(of: str) -> AsyncIterator[Client]:
                if of not in started:
                    started[of] = await running.enter_async_context(agent(of, "stdio", era))
                yield started[of]

            for promise in PROMISES:
                await promise(Door(era, key, reader, make_tenant(use)[1], connected))


class DescribeSearch:
    async def it_looks_everywhere_where_nothing_else_is_said(self, key):
        async with agent(key) as client:
            found = await given(client, "search", query="silver spoon")
        assert found["results"][0]["id"] == "spoons/spoon"
        url = f"{os.environ['CHORDWISE_URL']}/v1/documents/spoon?namespace=spoons"
        assert found["results"][0]["url"] == url
        with gateway(key) as http:
            assert http.get(url).json()["document_id"] == "spoon"

    async def it_filters_and_reads_as_many_passages_as_wanted(self, key):
        async with agent(key) as client:
            found = await given(client, "search", query="pump", namespaces=["pumps"], filters={"type": "manual"})
            assert {result["document_id"] for result in found["results"]} == {"manuals/pump 1"}
            found = await given(client, "search", query="part of the pump steel", namespaces=["pumps"], top_k=3)
            assert sum(len(result["passages"]) for result in found["results"]) == 3
            assert len({result["id"] for result in found["results"]}) == len(found["results"])

    async def it_is_the_answer_of_the_interface(self, key):
        body = {"query_text": "which part is of steel", "namespaces": ["pumps"], "top_k": 10}
        with gateway(key) as http:
            answer = http.post("/v1/rag/query", json=body).json()
        async with agent(key) as client:
            found = await given(client, "search", query=body["query_text"], namespaces=["pumps"])
        passages = [passage["chunk_id"] for result in found["results"] for passage in result["passages"]]
        assert sorted(passages) == sorted(chunk["chunk_id"] for chunk in answer["chunks"])


class DescribeFetch:
    async def it_gives_a_long_text_in_stretches(self, key):
        async with agent(key) as client:
            whole = await given(client, "fetch", id="pumps/long", max_chars=200_000)
            parts, offset = [], 0
            while offset is not None:
                part = await given(client, "fetch", id="pumps/long", offset=offset, max_chars=9000)
                parts.append(part["text"])
                offset = part["metadata"].get("next_offset")
        assert whole["text"] == "".join(parts) == TEXT
        assert len(parts) > 2
        assert whole["metadata"]["characters"] == len(TEXT)

    async def it_reads_a_single_passage(self, key):
        async with agent(key) as client:
            found = await given(client, "search", query="paragraph part steel", namespaces=["pumps"], top_k=1)
            [passage] = found["results"][0]["passages"]
            read = await given(client, "fetch", id=passage["chunk_id"])
        assert read["text"] == passage["text"]
        assert read["metadata"]["document_id"] == "long"

    async def it_masks_what_answers_mask(self, use):
        key = make_tenant(use)[1]
        with gateway(key) as http:
            upload(http, "people", [document("li", "Write to li.wei@example.com about the pump.")])
            made = http.put("/v1/profiles/default", json={"config": {"privacy": {"mask_answers": True}}})
            assert made.status_code in (200, 201), made.text
        async with agent(key) as client:
            assert "[email]" in (await given(client, "fetch", id="people/li"))["text"]


class DescribeExplain:
    async def it_says_where_a_passage_was_lost(self, key):
        async with agent(key) as client:
            found = await given(client, "search", query="The beta switch", namespaces=["pumps"], top_k=1)
            other = await given(client, "search", query="silver spoon", namespaces=["spoons"], top_k=1)
            spoon = other["results"][0]["passages"][0]["chunk_id"]
            why = await given(client, "explain", query_id=found["query_id"], chunk_id=spoon)
            assert why["why_not"]["stage"] == "namespace"
            shown = found["results"][0]["passages"][0]["chunk_id"]
            why = await given(client, "explain", query_id=found["query_id"], chunk_id=shown)
            assert (why["why_not"], [each["chunk_id"] for each in why["passages"]]) == (None, [shown])


class DescribeTheCommand:
    def it_ends_with_a_sentence_where_it_is_not_let_in(self):
        wrong = {**os.environ, "CHORDWISE_API_KEY": "cw_demo_wrong"}
        _is_a_sentence(
            subprocess.run([CHORDWISE, "mcp"], env=wrong, input="", capture_output=True, text=True, timeout=60),
            (1, "refuses the connection: The API key is not known"),
        )

    @pytest.mark.parametrize(
        ("url", "expected"),
        [
            ("http://127.0.0.1:9", (1, "there is no answer from http://127.0.0.1:9")),
            ("nonsense", (2, "must look like http://host:port")),
        ],
    )
    def it_ends_with_a_sentence_where_it_cannot_serve(self, url, expected):
        _is_a_sentence(called("mcp", CHORDWISE_URL=url, CHORDWISE_API_KEY="cw_demo_wrong"), expected)


def _is_a_sentence(ended: subprocess.CompletedProcess[str], expected: tuple[int, str]) -> None:
    code, sentence = expected
    assert (ended.returncode, ended.stdout) == (code, "")
    assert sentence in ended.stderr
    assert ended.stderr.count("\n") == 1
