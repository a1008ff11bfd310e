"""The retriever of LlamaIndex against the running stack."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from llama_index.core import get_response_synthesizer
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import MetadataMode, NodeRelationship, QueryBundle

from chordwise import Chordwise, ProblemError
from chordwise.llamaindex import ChordwiseRetriever
from tests.support.corpora.shelf import DRINKS, ENERGY, WIND, Shelf

QUESTION = "which turbine drives a generator"


@pytest.fixture
async def retriever(library: Shelf) -> AsyncIterator[ChordwiseRetriever]:
    made = ChordwiseRetriever([ENERGY], url=library.url, api_key=library.key, top_k=3)
    yield made
    await made.aclose()


@pytest.mark.thorough
class DescribeTheRetriever:
    def it_gives_nodes_with_scores_best_first(self, retriever):
        found = retriever.retrieve(QUESTION)
        assert len(found) == 3
        assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
        node = found[0].node
        assert (node.get_content(), node.node_id) == (WIND, node.metadata["chunk_id"])
        assert node.relationships[NodeRelationship.SOURCE].node_id == "wind"
        assert (node.start_char_idx, node.end_char_idx) == (0, len(WIND))
        shown = node.get_content(metadata_mode=MetadataMode.LLM)
        assert "title: Wind power" in shown
        named = {line.partition(":")[0] for line in shown.splitlines() if ": " in line}
        numbers = {"generation", "position", "start", "end"}
        assert numbers <= set(node.metadata)
        assert not named & {*numbers, "chunk_id", "document_id", "parent_id", "score"}

    async def it_answers_awaited_as_it_does_called(self, retriever):
        bundle = QueryBundle(QUESTION)
        called = await asyncio.to_thread(retriever.retrieve, bundle)
        assert [each.node_id for each in await retriever.aretrieve(bundle)] == [each.node_id for each in called]

    def it_hands_on_the_options_of_a_query(self, library):
        with Chordwise(*library) as client:
            filters = {"metadata": {"unit": "b"}}
            narrow = ChordwiseRetriever(ENERGY, client=client, filters=filters, method="full_text", rerank=False)
            both = ChordwiseRetriever([ENERGY, DRINKS], client=client)
            assert {each.metadata["document_id"] for each in narrow.retrieve("power")} == {"wind", "waves"}
            assert both.retrieve("绿茶用多少度的水")[0].metadata["namespace"] == DRINKS

    def it_feeds_a_query_engine(self, retriever):
        synthesizer = get_response_synthesizer(llm=MockLLM(), response_mode="compact")
        engine = RetrieverQueryEngine(retriever=retriever, response_synthesizer=synthesizer)
        answer = engine.query(QUESTION)
        assert WIND in str(answer)
        assert answer.source_nodes[0].metadata["document_id"] == "wind"

    def it_raises_what_the_client_raises(self, library):
        retriever = ChordwiseRetriever("nowhere", url=library.url, api_key=library.key)
        with pytest.raises(ProblemError, match="nowhere"):
            retriever.retrieve(QUESTION)
