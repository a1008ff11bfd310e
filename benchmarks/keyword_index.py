"""Section `index`: a host's keyword index of one namespace of 100,000, a million and, with ``--large``, ten million
chunks.

Chunks are drawn as terms (`benchmarks.drawn_chunks`) and go straight to the index, in the form of an
indexer; MySQL has the namespace's row and no chunk, so a query that the index cannot answer finds nothing.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import SecretStr
from sqlalchemy import Engine, make_url, text

from benchmarks import floor
from benchmarks.corpus import TENTH
from benchmarks.drawn_chunks import NAMESPACE, Tenant, chunk_id, spelling
from benchmarks.table import row, table
from pipeline.channels.keyword_channel import KeywordChannel
from pipeline.channels.local_indexes import LocalIndexes
from pipeline.database.engines import mysql_engine
from pipeline.database.rows import now
from pipeline.keyword.scoring import K1, B, long_share
from pipeline.keyword_index.index_folder import disk_bytes
from pipeline.keyword_index.indexed_chunk_store import IndexedChunk, IndexedChunks, NamespaceState
from pipeline.keyword_index.local_index_store import LocalIndexWriter
from pipeline.maintenance.migrate_schema import upgrade_mysql
from pipeline.query.plan import ChannelPlan, Plan, RetrievePlan
from pipeline.query.request import Query
from pipeline.records import DocumentId, Filters, QueryId, TenantId
from pipeline.settings import settings

SIZES, LARGE, QUICK = (100_000, 1_000_000), 10_000_000, (50_000,)
_TENANT = TenantId("bench-large")
_BLOCK = 50_000  # chunks of one commit
_CHUNKS_PER_DOCUMENT = 4
_TAGGED_EVERY = 10  # documents
_WORDS = {"four words": 4, "forty words": 40}
_QUESTIONS = {"four words": 40, "forty words": 10}
_REPLACED = 20  # documents
_TOP = 10
_POOL = 100
_STATEMENT_S = 600.0
_LETTERS = 700  # of the text of a chunk
_ALPHABET = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz   ", np.uint8)
_TOLERANCE = 1e-4  # of the tenth score: sums in another order, lengths in another precision


@dataclass(slots=True)
class _Large:
    """A namespace that grows by blocks: its rows in MySQL, its index, and the frequency of each word."""

    mysql: Engine
    root: Path
    tokens: NDArray[np.object_]
    frequency: Counter[int] = field(default_factory=Counter)
    chunks: int = 0
    terms: int = 0
    cpu_ms: float = 0.0

    def grow(self, chunks: int, writer: LocalIndexWriter) -> None:
        """Add blocks until there are ``chunks``, one commit a block, and count the processor time of the index alone."""
        while self.chunks < chunks:
            block = _block(self.chunks // _BLOCK)
            rows = list(_indexed(block, self.tokens))
            self.frequency.update(block.postings(0, block.chunks)[0].tolist())
            self.chunks += block.chunks
            self.terms += int(block.starts[-1])
            state = self.published()
            began = time.process_time()
            writer.replace(state, (), rows)
            writer.commit()
            self.cpu_ms += (time.process_time() - began) * 1000
            if self.chunks % 500_000 == 0:
                print(f"index: {self.chunks:,} chunks", flush=True)

    def published(self) -> NamespaceState:
        """Advance the namespace by one revision in MySQL, and return its state."""
        values = {"tenant": _TENANT, "name": NAMESPACE, "chunks": self.chunks, "terms": self.terms, "now": now()}
        with self.mysql.begin() as connection:
            connection.execute(_PUBLISH, values)
            state = IndexedChunks(connection, _TENANT).state(NAMESPACE)
        assert state is not None
        return state


def run(*, sizes: Sequence[int]) -> dict[str, Any]:
    """Measure the index at each size."""
    results: dict[str, Any] = {}
    with _database() as engine, tempfile.TemporaryDirectory() as folder:
        large = _Large(engine, Path(folder), _block(0).tokens)
        writer = LocalIndexWriter(large.root, _TENANT)
        for size in sizes:
            large.grow(size, writer)
            results[str(size)] = _measured(large, writer)
            print(show({str(size): results[str(size)]}), flush=True)
        began = time.perf_counter()
        writer.close()
        results["merged_after_s"] = round(time.perf_counter() - began, 1)
        results["merged_mb"] = round(disk_bytes(large.root) / 1e6)
    return results


def _measured(large: _Large, writer: LocalIndexWriter) -> dict[str, Any]:
    channel = KeywordChannel(large.mysql, LocalIndexes(large.root, wait_s=0.0))
    questions = {name: _questions(large.chunks, count, _WORDS[name]) for name, count in _QUESTIONS.items()}
    tagged = Filters(tags=(TENTH,))
    queries = {
        name: [_query(_block(0), words, number) for number, words in enumerate(questions[name])] for name in questions
    }
    queries["four words, tag of 10 %"] = [replace(plain, filters=tagged) for plain in queries["four words"]]
    exact = _exact(large, questions)
    figures = {name: _asked(channel, of_kind, exact[name]) for name, of_kind in queries.items()}
    return {
        "index_cpu_ms_per_chunk": round(large.cpu_ms / large.chunks, 3),
        "disk_mb": round(disk_bytes(large.root) / 1e6),
        "files": sum(1 for _ in large.root.rglob("*.store")),
        "queries": figures,
        "replaced": _replaced(large, writer),
    }


def _asked(channel: KeywordChannel, queries: Sequence[Query], exact: Sequence[set[str]]) -> dict[str, float]:
    cpu, wall, shares = [], [], []
    for number, (query_, best) in enumerate(zip(queries, exact, strict=True)):
        for turn in range(2):  # the first one reads from the disk
            began, own = time.perf_counter(), time.process_time()
            # every query counts as a new one
            recalled = channel.recall(
                replace(query_, query_id=type(query_.query_id)(f"{number}-{turn}-{uuid.uuid4()}"))
            )
            own_ms, wall_ms = (time.process_time() - own) * 1000, (time.perf_counter() - began) * 1000
        if (recalled.guard or {})["method"] != "index":
            raise RuntimeError("the index does not answer")
        cpu.append(own_ms)
        wall.append(wall_ms)
        shares.append(len(best & set(recalled.chunk_ids[:_TOP])) / min(_TOP, len(best)))
    return {
        "cpu_p50_ms": round(statistics.median(cpu), 2),
        "cpu_most_ms": round(max(cpu), 2),
        "p50_ms": round(statistics.median(wall), 2),
        "top_10_of_exact_bm25": round(min(1.0, statistics.mean(shares)), 4),
    }


def _replaced(large: _Large, writer: LocalIndexWriter) -> dict[str, float]:
    """Write documents again, one commit each, and return the processor time until a document can be found."""
    block, cpu, wall = _block(0), [], []
    rows = list(_indexed(replace(block, chunks=_REPLACED * _CHUNKS_PER_DOCUMENT), large.tokens))
    for number in range(_REPLACED):
        state = large.published()
        chunks = rows[number * _CHUNKS_PER_DOCUMENT : (number + 1) * _CHUNKS_PER_DOCUMENT]
        began, own = time.perf_counter(), time.process_time()
        writer.replace(state, [_document_id(block, number * _CHUNKS_PER_DOCUMENT)], chunks)
        writer.commit()
        cpu.append((time.process_time() - own) * 1000)
        wall.append((time.perf_counter() - began) * 1000)
    return {"cpu_p50_ms": round(statistics.median(cpu), 1), "p50_ms": round(statistics.median(wall), 1)}


@contextmanager
def _database() -> Iterator[Engine]:
    """Create an empty database beside the main one, with the product's tables."""
    name = f"chordwise_bench_{uuid.uuid4().hex[:12]}"
    use = settings()
    url = make_url(use.mysql_url.get_secret_value()).set(database=name)
    with closing(floor.mysql()) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
        moved = use.model_copy(update={"mysql_url": SecretStr(url.render_as_string(hide_password=False))})
        engine = mysql_engine(moved, timeout_s=_STATEMENT_S, reading=True)
        try:
            upgrade_mysql(engine, moved)
            yield engine
        finally:
            engine.dispose()
            cursor.execute(f"DROP DATABASE {name}")


def _query(tenant: Tenant, words: Iterable[int], number: int) -> Query:
    """Return the words as a query of the product."""
    return Query(
        query_id=QueryId(str(number)),
        tenant_id=tenant.tenant_id,
        request_id="bench",
        query_text=" ".join(map(spelling, words)),
        namespaces=(NAMESPACE,),
        plan=Plan(retrieve=RetrievePlan(channels={"keyword": ChannelPlan(pool=_POOL)})),
        created_at=0.0,
        deadline_at=math.inf,
    )


def _weight(chunks: int, frequency: int) -> float:
    """Return BM25's ``(k1 + 1) * idf`` of a word in so many of the chunks."""
    return (K1 + 1) * math.log1p((chunks - frequency + 0.5) / (frequency + 0.5))


def _block(number: int) -> Tenant:
    return Tenant(_TENANT, _BLOCK, 1000 + number)


def _document_id(block: Tenant, chunk: int) -> DocumentId:
    return DocumentId(f"d{block.seed}-{chunk // _CHUNKS_PER_DOCUMENT:06d}")


def _is_tagged(chunk: int) -> bool:
    return chunk // _CHUNKS_PER_DOCUMENT % _TAGGED_EVERY == 0


def _indexed(block: Tenant, tokens: NDArray[np.object_]) -> Iterator[IndexedChunk]:
    """Yield the chunks of a block as `IndexedChunks` reads them from MySQL."""
    random = np.random.default_rng([block.seed, 3])
    letters = _ALPHABET[random.integers(0, len(_ALPHABET), size=block.chunks * _LETTERS)].tobytes().decode("ascii")
    for chunk in range(block.chunks):
        identity = chunk_id(block, chunk)
        terms = f"{identity} {NAMESPACE} 0 0 0 " + " ".join(tokens[block.of(chunk)])
        fields = _FIELDS | {
            "chunk_id": identity,
            "document_id": _document_id(block, chunk),
            "ordinal": chunk % _CHUNKS_PER_DOCUMENT,
            "tags": f'["{TENTH}"]' if _is_tagged(chunk) else "[]",
        }
        body = letters[chunk * _LETTERS : (chunk + 1) * _LETTERS]
        yield IndexedChunk(terms.encode("ascii"), body, orjson.dumps(fields).decode())


def _questions(chunks: int, count: int, words: int) -> list[list[int]]:
    """Return consecutive words from chunks spread over the namespace."""
    random = np.random.default_rng([chunks, words])
    questions = []
    for chunk in np.sort(random.integers(0, chunks, size=count)).tolist():
        of_chunk = _block(chunk // _BLOCK).of(chunk % _BLOCK)
        at = int(random.integers(0, 60))
        questions.append(of_chunk[at : at + words].tolist())
    return questions


def _exact(large: _Large, questions: dict[str, list[list[int]]]) -> dict[str, list[set[str]]]:
    """Score every chunk by BM25, block by block, and return the ids at or above each question's tenth score."""
    kinds = [(name, words, False) for name, of_kind in questions.items() for words in of_kind]
    kinds += [("four words, tag of 10 %", words, True) for words in questions["four words"]]
    best: list[list[tuple[float, str]]] = [[] for _ in kinds]
    mean = large.terms / large.chunks
    wanted = sorted({word for _, words, _ in kinds for word in words})
    for number in range(large.chunks // _BLOCK):
        block = _block(number)
        words, holders, counts, lengths = block.postings(0, block.chunks)
        starts = dict(zip(wanted, np.searchsorted(words, wanted).tolist(), strict=True))
        ends = dict(zip(wanted, np.searchsorted(words, wanted, side="right").tolist(), strict=True))
        is_tagged = np.arange(block.chunks) // _CHUNKS_PER_DOCUMENT % _TAGGED_EVERY == 0
        for at, (_, of_one, only_tagged) in enumerate(kinds):
            scores = np.zeros(block.chunks)
            repeated = 0.5 * long_share(len(set(of_one)))
            for word, times in Counter(of_one).items():
                part = slice(starts[word], ends[word])
                worth = times**repeated * _weight(large.chunks, large.frequency[word])
                scores[holders[part]] += worth * counts[part] / (counts[part] + K1 * (1 - B + B * lengths[part] / mean))
            if only_tagged:
                scores[~is_tagged] = 0.0
            top = np.argpartition(scores, -_TOP * 3)[-_TOP * 3 :]
            merged = best[at] + [(float(scores[chunk]), chunk_id(block, int(chunk))) for chunk in top]
            best[at] = sorted(merged, reverse=True)[: _TOP * 3]
    lists: dict[str, list[set[str]]] = {}
    for (name, _, _), ranked in zip(kinds, best, strict=True):
        least = ranked[_TOP - 1][0] * (1 - _TOLERANCE)
        lists.setdefault(name, []).append({identity for score, identity in ranked if score >= least and score > 0})
    return lists


def show(results: dict[str, Any]) -> str:
    """Return the section as two tables."""
    sizes = {size: at_size for size, at_size in results.items() if size.isdigit()}
    queries = [
        row(f"{int(size):,}, {name}", *figures.values())
        for size, at_size in sizes.items()
        for name, figures in at_size["queries"].items()
    ]
    keeping = [
        row(
            f"{int(size):,}",
            at_size["index_cpu_ms_per_chunk"],
            at_size["disk_mb"],
            at_size["files"],
            at_size["replaced"]["cpu_p50_ms"],
            at_size["replaced"]["p50_ms"],
        )
        for size, at_size in sizes.items()
    ]
    heads = ("chunks, question", "CPU ms (p50)", "the most", "p50 ms", "BM25's ten")
    kept = ("chunks", "CPU ms a chunk", "disk MB", "segments", "replaced: CPU ms", "ms")
    merged = (
        f"\nmerged in {results['merged_after_s']} s to {results['merged_mb']:,} MB" if "merged_mb" in results else ""
    )
    return f"{table(heads, queries)}\n\n{table(kept, keeping)}{merged}"


_PUBLISH = text(
    "INSERT INTO namespaces (tenant_id, namespace, chunk_count, term_count, created_at, revision, revised_at)"
    " VALUES (:tenant, :name, :chunks, :terms, :now, 1, :now) ON DUPLICATE KEY UPDATE chunk_count = :chunks,"
    " term_count = :terms, revision = revision + 1, revised_at = :now"
)
_FIELDS: dict[str, Any] = {
    "namespace": NAMESPACE,
    "generation": 1,
    "heading_path": "[]",
    "page": None,
    "page_end": None,
    "start": 0,
    "end": _LETTERS,
    "token_count": 200,
    "title": "",
    "author": None,
    "type": None,
    "published_at": None,
    "story_time": None,
    "metadata": "{}",
    "source_uri": None,
    "updated_at": "2026-01-01 00:00:00",
    "chunk_type": "parent",
    "parent_id": None,
    "segment": None,
    "chunking": '{"strategy": "recursive"}',
    "reworded": 0,
}
