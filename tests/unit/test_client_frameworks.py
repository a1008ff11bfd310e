"""Adapters of frameworks, asked with a small server behind them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chordwise import Chordwise
from chordwise.langchain import ChordwiseRetriever
from tests.support.gateway_stub import KEY, GatewayStub, serve


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
