"""Haystack's hybrid retrieval from PostgreSQL as its documentation shows it; runs in a virtual environment of its own.

A pipeline of two retrievers on one `PgvectorDocumentStore` and a `DocumentJoiner` with reciprocal ranks.
"""

from __future__ import annotations

from haystack import Document, Pipeline
from haystack.components.joiners import DocumentJoiner
from haystack.utils import Secret
from haystack_integrations.components.retrievers.pgvector import PgvectorEmbeddingRetriever, PgvectorKeywordRetriever
from haystack_integrations.document_stores.pgvector import PgvectorDocumentStore

from benchmarks.products.peer_asking import Embedder, measured, task, tell

_ADDED_AT_ONCE = 2000


def main() -> None:
    """Create the table, add the chunks, ask."""
    given, model = task(), Embedder()
    store = PgvectorDocumentStore(
        connection_string=Secret.from_token(given["url"].replace("postgresql+psycopg://", "postgresql://")),
        table_name="bench_haystack",
        embedding_dimension=256,
        vector_function="cosine_similarity",
        recreate_table=True,
        search_strategy="exact_nearest_neighbor",
        language="english",
    )
    texts = given["texts"]
    for start in range(0, len(texts), _ADDED_AT_ONCE):
        some = texts[start : start + _ADDED_AT_ONCE]
        store.write_documents(
            [
                Document(id=str(start + number), content=text, embedding=vector)
                for number, (text, vector) in enumerate(zip(some, model.embed(some), strict=True))
            ]
        )
    pipeline = Pipeline()
    pipeline.add_component("vector", PgvectorEmbeddingRetriever(document_store=store, top_k=given["pool"]))
    pipeline.add_component("words", PgvectorKeywordRetriever(document_store=store, top_k=given["pool"]))
    pipeline.add_component("joined", DocumentJoiner(join_mode="reciprocal_rank_fusion", top_k=given["top"]))
    pipeline.connect("vector", "joined")
    pipeline.connect("words", "joined")

    def ask(question: str) -> int:
        run = pipeline.run({"vector": {"query_embedding": model.embed([question])[0]}, "words": {"query": question}})
        return len(run["joined"]["documents"])

    # Its store has one connection, which threads may not share, so it gets one question at a time.
    tell({"postgres": measured(ask, given["questions"], [1])})


if __name__ == "__main__":
    main()
