"""LlamaIndex's hybrid retrieval from PostgreSQL as its documentation shows it; runs in a virtual environment of its
own.

A vector retriever and a text retriever of one `PGVectorStore`, merged by `QueryFusionRetriever` with reciprocal ranks;
with ``keyword: memory`` its `BM25Retriever` looks the words up in the process instead.
"""

from __future__ import annotations

from typing import Any

from llama_index.core import MockEmbedding, Settings, StorageContext, VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import TextNode
from llama_index.retrievers.bm25 import BM25Retriever
from llama_index.vector_stores.postgres import PGVectorStore
from sqlalchemy import make_url

from benchmarks.products.peer_asking import Embedder, measured, task, tell

_TABLE = "bench_llamaindex"
_ADDED_AT_ONCE = 2000
_MODEL = Embedder()


class Local(BaseEmbedding):  # type: ignore[misc]  # Any where LlamaIndex is not installed
    """The embedder of Chordwise."""

    def _get_query_embedding(self, query: str) -> list[float]:
        return _MODEL.embed([query])[0]

    def _get_text_embedding(self, text: str) -> list[float]:
        return _MODEL.embed([text])[0]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)


def main() -> None:
    """Create the table, add the chunks, ask."""
    given = task()
    Settings.llm, Settings.embed_model = MockLLM(), MockEmbedding(embed_dim=256)
    store = _store(given["url"])
    nodes = [TextNode(id_=str(number), text=text) for number, text in enumerate(given["texts"])]
    for start in range(0, len(nodes), _ADDED_AT_ONCE):
        some = nodes[start : start + _ADDED_AT_ONCE]
        for node, vector in zip(some, _MODEL.embed([node.text for node in some]), strict=True):
            node.embedding = vector
        store.add(some)
    index = VectorStoreIndex.from_vector_store(
        store, embed_model=Local(), storage_context=StorageContext.from_defaults(vector_store=store)
    )
    pool, top = given["pool"], given["top"]
    vector = index.as_retriever(similarity_top_k=pool)
    results = {}
    for keyword in ("postgres", "memory"):
        words: Any = (
            index.as_retriever(vector_store_query_mode="sparse", similarity_top_k=pool, sparse_top_k=pool)
            if keyword == "postgres"
            else BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=pool)
        )
        fused = QueryFusionRetriever(
            [vector, words], similarity_top_k=top, num_queries=1, mode="reciprocal_rerank", use_async=False
        )
        results[keyword] = measured(lambda question: len(fused.retrieve(question)), given["questions"], given["many"])  # noqa: B023
    tell(results)


def _store(address: str) -> PGVectorStore:
    url = make_url(address)
    return PGVectorStore.from_params(
        host=url.host,
        port=str(url.port),
        database=url.database,
        user=url.username,
        password=url.password,
        table_name=_TABLE,
        embed_dim=256,
        hybrid_search=True,
        text_search_config="english",
    )


if __name__ == "__main__":
    main()
