"""LangChain's own suite for retrievers, and what its users do beside it, against the running stack."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_tests.integration_tests import RetrieversIntegrationTests
from pydantic import ValidationError

from chordwise import AsyncChordwise, Chordwise, InvalidInput, ProblemError
from chordwise.langchain import ChordwiseRetriever
from pipeline.resources import Resources
from tests.support.corpora.shelf import DRINKS, ENERGY, WIND, Shelf, shelf

QUESTION = "which turbine drives a generator"


@pytest.fixture(scope="module")
def library(use: Resources) -> Iterator[Shelf]:
    with shelf(use) as found:
        yield found


@pytest.fixture
async def retriever(library: Shelf) -> AsyncIterator[ChordwiseRetriever]:
    made = ChordwiseRetriever(namespaces=[ENERGY], url=library.url, api_key=library.key)
    yield made
    await made.aclose()


class DescribeTheSuiteOfLangChain(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _library(self, library: Shelf) -> None:
        self._shelf = library

    @pytest.fixture
    async def retriever(self) -> AsyncIterator[ChordwiseRetriever]:
        made = ChordwiseRetriever(**self.retriever_constructor_params)
        yield made
        await made.aclose()

    @property
    def retriever_constructor(self) -> type[ChordwiseRetriever]:
        return ChordwiseRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, object]:
        return {"namespaces": [ENERGY], "url": self._shelf.url, "api_key": self._shelf.key}

    @property
    def retriever_query_example(self) -> str:
        return "how is power made of a turbine, panels, waves, steam"


class DescribeTheRetriever:
    def it_gives_documents_that_say_where_they_are_from(self, retriever):
        first = retriever.invoke(QUESTION)[0]
        assert (first.page_content, first.metadata["document_id"], first.metadata["title"]) == (
            WIND,
            "wind",
            "Wind power",
        )
        assert first.id == first.metadata["chunk_id"]
        assert (first.metadata["unit"], first.metadata["type"], first.metadata["source"]) == ("b", "note", "wind")
        assert set(first.metadata["channels"]) == {"keyword", "semantic"}
        assert first.metadata["score"] > 0

    def it_takes_the_words_of_a_query_for_one_call(self, retriever):
        found = retriever.invoke("power", filters={"metadata": {"unit": "b"}}, rerank=False, method="full_text")
        assert {each.metadata["document_id"] for each in found} == {"wind", "waves"}
        elsewhere = retriever.invoke("绿茶用多少度的水", namespaces=DRINKS)
        assert [each.metadata["document_id"] for each in elsewhere] == ["tea"]

    async def it_is_asked_from_any_loop_and_many_at_a_time(self, retriever):
        questions = [f"{QUESTION} number {n}" for n in range(8)]
        answers = await asyncio.gather(*(retriever.ainvoke(question) for question in questions))
        assert [found[0].metadata["document_id"] for found in answers] == ["wind"] * 8
        assert [found[0].id for found in await retriever.abatch(questions)] == [found[0].id for found in answers]

        async def elsewhere() -> list[Document]:
            found = await retriever.ainvoke(QUESTION)
            await retriever.aclose()
            return found

        assert (await asyncio.to_thread(asyncio.run, elsewhere()))[0].metadata["document_id"] == "wind"

    async def it_uses_the_clients_it_is_given(self, library):
        async with AsyncChordwise(*library) as shared:
            retriever = ChordwiseRetriever(namespaces=ENERGY, k=1, async_client=shared)
            assert [each.metadata["document_id"] for each in await retriever.ainvoke(QUESTION)] == ["wind"]
        with Chordwise(*library) as shared:
            retriever = ChordwiseRetriever(namespaces=ENERGY, k=1, client=shared)
            called, awaited = retriever.invoke(QUESTION), await retriever.ainvoke(QUESTION)
            assert [each.id for each in called] == [each.id for each in awaited]

    def it_takes_its_place_in_a_chain(self, retriever):
        prompt = ChatPromptTemplate.from_template("{context}\n\nQuestion: {question}")
        chain = {"context": retriever | _text_of, "question": RunnablePassthrough()} | prompt
        told = chain.invoke(QUESTION).to_messages()[0].content
        assert told.startswith(WIND)
        assert told.endswith(f"Question: {QUESTION}")

    def it_lets_people_rate_what_they_were_shown(self, retriever, library):
        first = retriever.invoke(f"{QUESTION}, rated")[0]
        with Chordwise(*library) as client:
            given = client.feedback(first.metadata["query_id"], "good", chunk_id=first.metadata["chunk_id"])
        assert (given.rating, given.document_id) == ("good", "wind")

    def it_raises_what_the_client_raises(self, retriever, library):
        with pytest.raises(ProblemError) as refused:
            retriever.invoke(QUESTION, namespaces=["nowhere"])
        assert refused.value.status == 404
        stranger = ChordwiseRetriever(namespaces=[ENERGY], url=library.url, api_key="cw_nobody")
        with pytest.raises(ProblemError) as refused:
            stranger.invoke(QUESTION)
        assert refused.value.status == 401
        assert library.key not in repr(retriever)

    @pytest.mark.parametrize(
        "wrong", [{"namespaces": []}, {"namespaces": ["kb"], "k": 0}, {"namespaces": ["kb"], "K": 3}]
    )
    def it_refuses_arguments_that_are_none(self, wrong):
        with pytest.raises((ValidationError, InvalidInput)):
            ChordwiseRetriever(**wrong)


def _text_of(documents: list[Document]) -> str:
    return "\n".join(each.page_content for each in documents)
