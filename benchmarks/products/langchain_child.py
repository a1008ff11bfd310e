"""The task's texts into LangChain's PGVectorStore as its documentation shows it; runs in a virtual environment of its
own. The table has hybrid search, because that is compared.
"""

from __future__ import annotations

import resource
import time

from langchain_core.embeddings import Embeddings
from langchain_postgres import PGEngine, PGVectorStore
from langchain_postgres.v2.hybrid_search_config import HybridSearchConfig
from langchain_postgres.v2.indexes import HNSWIndex

from benchmarks.products.peer_asking import Embedder, task, tell

_TABLE = "bench_langchain"
_ADDED_AT_ONCE = 500


class Local(Embeddings):  # type: ignore[misc]  # Any where LangChain is not installed
    """The embedder of Chordwise."""

    def __init__(self) -> None:
        self._model = Embedder()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one unit vector for each text."""
        return self._model.embed(texts)

    def embed_query(self, text: str) -> list[float]:
        """Return one unit vector."""
        return self.embed_documents([text])[0]


def main() -> None:
    """Create the table, add the texts, drop it."""
    given = task()
    texts: list[str] = given["texts"]
    engine = PGEngine.from_connection_string(url=given["url"])
    hybrid = HybridSearchConfig(tsv_column="content_tsv", tsv_lang="pg_catalog.english")
    engine.init_vectorstore_table(
        table_name=_TABLE, vector_size=256, hybrid_search_config=hybrid, overwrite_existing=True
    )
    embedder = Local()
    embedder.embed_documents(["warm up"])
    store = PGVectorStore.create_sync(engine, embedder, _TABLE, hybrid_search_config=hybrid)
    store.apply_hybrid_search_index()
    _add(store, given["into"])
    if given["hnsw"]:
        store.apply_vector_index(HNSWIndex())
    began, cpu = time.perf_counter(), time.process_time()
    _add(store, texts)
    wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
    began = time.process_time()
    embedder.embed_documents(texts)
    embed_s = time.process_time() - began
    engine.drop_table(_TABLE)
    tell(
        {
            "chunks": len(texts),
            "into": len(given["into"]),
            "hnsw": given["hnsw"],
            "wall_s": round(wall_s, 3),
            "chunks_per_s": round(len(texts) / wall_s, 1),
            "client_cpu_ms_per_chunk": round((cpu_s - embed_s) * 1000 / len(texts), 4),
            "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        }
    )


def _add(store: PGVectorStore, texts: list[str]) -> None:
    for start in range(0, len(texts), _ADDED_AT_ONCE):
        store.add_texts(texts[start : start + _ADDED_AT_ONCE])


if __name__ == "__main__":
    main()
