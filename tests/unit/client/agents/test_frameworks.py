"""Adapters of frameworks, asked with a small server behind them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from langchain_core.messages import AIMessageChunk, HumanMessage, HumanMessageChunk, ToolMessageChunk

from chordwise import Chordwise
from chordwise.langchain import ChordwiseRetriever
from chordwise.langgraph import last_words
from tests.support.servers.gateway_stub import KEY, GatewayStub, serve


@pytest.fixture
def stub() -> Iterator[GatewayStub]:
    with serve() as running:
        running.documents["kb"] = {"d1": {"document_id": "d1", "title": "Tea", "text": "green tea"}}
        running.documents["other"] = {}
        yield running


class DescribeTheRetrieverOfLangChain:
    @pytest.mark.parametrize(
        ("asked", "searched"),
        [
            ({}, ["kb"]),
            ({"namespace": "other"}, ["other"]),
            ({"namespaces": ["other", "kb"]}, ["other", "kb"]),
            ({"namespace": None}, ["kb"]),
        ],
    )
    def it_searches_what_one_call_names(self, stub, asked, searched):
        with Chordwise(stub.url, KEY) as client:
            ChordwiseRetriever(namespaces=["kb"], client=client).invoke("tea", **asked)
        assert stub.received[-1].json()["namespaces"] == searched


class DescribeTheLastWordsOfTheUser:
    def it_takes_nobody_elses_for_them_while_they_come_in(self):
        others = [ToolMessageChunk("found it", tool_call_id="1"), AIMessageChunk("I think")]
        assert last_words({"messages": [HumanMessage("green tea"), *others]}) == "green tea"
        assert last_words({"messages": [HumanMessageChunk("how hot"), *others]}) == "how hot"
