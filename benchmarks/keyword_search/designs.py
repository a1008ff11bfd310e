"""Four designs of a keyword index. Three in MySQL: FULLTEXT with BM25 over its candidates (the product's own code), a
plain table of postings with BM25 in SQL, and postings packed into arrays and scored in this process. The fourth, the
product's own as well, is an index in a folder of this host."""

from __future__ import annotations

import math
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import pymysql
from numpy.typing import NDArray
from sqlalchemy import Engine

from benchmarks.keyword_search.synthetic_rows import NAMESPACE, Tenant, frequencies, word, write
from pipeline.channels.keyword_channel import KeywordChannel
from pipeline.channels.local_indexes import LocalIndexes
from pipeline.keyword.scoring import K1, B
from pipeline.maintenance.index_keywords import KeywordIndexer
from pipeline.query.plan import ChannelPlan, Plan, RetrievePlan
from pipeline.query.request import Query
from pipeline.records import QueryId
from pipeline.resources import Resources
from pipeline.settings import settings

_POOL = 100
_BATCH = 256  # chunks that a worker writes in one transaction
_SEGMENT = 16_384  # chunks of a packed segment after merging
_TABLES = {
    "postings": (
        "CREATE TABLE bench_postings (space INT UNSIGNED NOT NULL, term INT UNSIGNED NOT NULL, chunk INT UNSIGNED NOT NULL,"
        " tf SMALLINT UNSIGNED NOT NULL, length SMALLINT UNSIGNED NOT NULL, PRIMARY KEY (space, term, chunk)) ENGINE=InnoDB"
    ),
    "packed": (
        "CREATE TABLE bench_packed (space INT UNSIGNED NOT NULL, term INT UNSIGNED NOT NULL, segment INT UNSIGNED NOT NULL,"
        " body MEDIUMBLOB NOT NULL, PRIMARY KEY (space, term, segment)) ENGINE=InnoDB"
    ),
    "numbers": (
        "CREATE TABLE bench_numbers (space INT UNSIGNED NOT NULL, chunk INT UNSIGNED NOT NULL, tenant_id VARCHAR(64)"
        " CHARACTER SET ascii COLLATE ascii_bin NOT NULL, chunk_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,"
        " PRIMARY KEY (space, chunk)) ENGINE=InnoDB"
    ),
}
_FREQUENCIES = (
    "CREATE TABLE bench_frequencies (space INT UNSIGNED NOT NULL, token CHAR(13) CHARACTER SET ascii COLLATE ascii_bin"
    " NOT NULL, chunks INT UNSIGNED NOT NULL, PRIMARY KEY (space, token)) ENGINE=InnoDB"
)
_POSTING = np.dtype([("chunk", "<u4"), ("tf", "<u2"), ("length", "<u2")])
# Every design must leave out invisible chunks, so hits are looked up with their documents.
_SHOWN = (
    "SELECT n.chunk, c.chunk_id FROM bench_numbers n JOIN chunks c ON c.tenant_id = n.tenant_id AND c.chunk_id = n.chunk_id"
    " JOIN documents d ON d.tenant_id = c.tenant_id AND d.namespace = c.namespace AND d.document_id = c.document_id"
    " AND d.published_generation = c.generation WHERE n.space = %s AND n.chunk IN %s AND c.enabled = 1"
)

Cursor = pymysql.cursors.Cursor


class Design(Protocol):
    """A design of the index."""

    name: str

    def load(self, cursor: Cursor, tenant: Tenant) -> None:
        """Load all chunks of a tenant at once."""

    def add(self, cursor: Cursor, tenant: Tenant, first: int, last: int) -> None:
        """Add chunks as ingestion writes them: one transaction for each batch."""

    def search(self, cursor: Cursor, tenant: Tenant, words: Sequence[int]) -> list[str]:
        """Return the best chunks for these words."""


class FullText:
    """The product's keyword channel on the product's tables."""

    name = "FULLTEXT + BM25 (the product)"

    def __init__(self, engine: Engine) -> None:
        self._channel = KeywordChannel(engine)
        self._asked = 0

    def load(self, cursor: Cursor, tenant: Tenant) -> None:
        """Do nothing: the rows of `chunks` exist already."""

    def add(self, cursor: Cursor, tenant: Tenant, first: int, last: int) -> None:
        """Add rows of `chunks`, which are part of every design; only here they have a FULLTEXT index."""
        write(cursor, tenant, first, last, commit=_BATCH)

    def search(self, cursor: Cursor, tenant: Tenant, words: Sequence[int]) -> list[str]:  # noqa: ARG002 - has a pool
        """Call the channel; every question counts as a new one."""
        self._asked += 1
        return list(self._channel.recall(query(tenant, words, self._asked)).chunk_ids)


class _Numbered:
    """The common part of both kinds of postings: numbers instead of ids, and stored frequencies."""

    def frequencies(self, cursor: Cursor, tenant: Tenant, words: Sequence[int]) -> dict[int, float]:
        """Return the words in order, each with its idf times k1 + 1."""
        tokens = {tenant.tokens[number]: number for number in dict.fromkeys(words)}
        cursor.execute(
            "SELECT token, chunks FROM bench_frequencies WHERE space = %s AND token IN %s", (tenant.seed, list(tokens))
        )
        return {tokens[token]: weight(tenant.chunks, count) for token, count in cursor.fetchall()}

    def shown(self, cursor: Cursor, tenant: Tenant, chunks: Sequence[int]) -> list[str]:
        """Return the ids of the visible ones, best first."""
        if not chunks:
            return []
        cursor.execute(_SHOWN, (tenant.seed, list(chunks)))
        ids = dict(cursor.fetchall())
        return [ids[chunk] for chunk in chunks if chunk in ids][:_POOL]


class Postings(_Numbered):
    """One row for each term of each chunk, clustered by tenant and term; BM25 is SQL."""

    name = "table of postings, BM25 in SQL"

    def load(self, cursor: Cursor, tenant: Tenant) -> None:
        """Insert the postings in the order of the key."""
        _insert_postings(cursor, tenant, 0, tenant.chunks)

    def add(self, cursor: Cursor, tenant: Tenant, first: int, last: int) -> None:
        """Add a batch's postings, in the order of the key."""
        for start in range(first, last, _BATCH):
            _insert_postings(cursor, tenant, start, min(last, start + _BATCH))
            cursor.connection.commit()

    def search(self, cursor: Cursor, tenant: Tenant, words: Sequence[int]) -> list[str]:
        """Score every posting of every word."""
        weights = self.frequencies(cursor, tenant, words)
        if not weights:
            return []
        cases = " ".join(f"WHEN {number} THEN {weight!r}" for number, weight in weights.items())
        by_length = K1 * B / (float(tenant.starts[-1]) / tenant.chunks)
        cursor.execute(
            f"SELECT chunk, SUM((CASE term {cases} END) * tf / (tf + {K1 * (1 - B)!r} + {by_length!r} * length)) AS score"
            f" FROM bench_postings WHERE space = %s AND term IN %s GROUP BY chunk ORDER BY score DESC, chunk LIMIT {_POOL}",
            (tenant.seed, list(weights)),
        )
        return self.shown(cursor, tenant, [row[0] for row in cursor.fetchall()])


class Packed(_Numbered):
    """One row for each term of each segment, with its postings as an array; BM25 is numpy."""

    name = "packed postings, BM25 in numpy"

    def load(self, cursor: Cursor, tenant: Tenant) -> None:
        """Write merged segments."""
        for start in range(0, tenant.chunks, _SEGMENT):
            _insert_packed(cursor, tenant, start, min(tenant.chunks, start + _SEGMENT), segment=start)

    def add(self, cursor: Cursor, tenant: Tenant, first: int, last: int) -> None:
        """Write a segment for each batch, and at the end one for all of them, as after merging."""
        for start in range(first, last, _BATCH):
            _insert_packed(cursor, tenant, start, min(last, start + _BATCH), segment=start)
            cursor.connection.commit()
        self._merge(cursor, tenant, first)
        cursor.connection.commit()

    def search(self, cursor: Cursor, tenant: Tenant, words: Sequence[int]) -> list[str]:
        """Read all arrays of all words by one statement, then sum over chunk numbers."""
        weights = self.frequencies(cursor, tenant, words)
        if not weights:
            return []
        cursor.execute(
            "SELECT term, body FROM bench_packed WHERE space = %s AND term IN %s", (tenant.seed, list(weights))
        )
        rows = cursor.fetchall()
        postings = np.concatenate([np.frombuffer(body, _POSTING) for _, body in rows])
        counts = [len(body) // _POSTING.itemsize for _, body in rows]
        weight = np.repeat(np.array([weights[term] for term, _ in rows]), counts)
        by_length = K1 * B / (float(tenant.starts[-1]) / tenant.chunks)
        tf = postings["tf"].astype(np.float64)
        scores = np.bincount(postings["chunk"], weight * tf / (tf + K1 * (1 - B) + by_length * postings["length"]))
        best = np.argpartition(-scores, min(_POOL, len(scores) - 1))[:_POOL]
        best = best[scores[best] > 0]
        return self.shown(cursor, tenant, best[np.lexsort((best, -scores[best]))].tolist())

    def _merge(self, cursor: Cursor, tenant: Tenant, first: int) -> None:
        """Read the segments from ``first`` on and write them as one."""
        cursor.execute(
            "SELECT term, body FROM bench_packed WHERE space = %s AND segment >= %s ORDER BY term, segment",
            (tenant.seed, first),
        )
        joined: dict[int, bytes] = {}
        for term, body in cursor.fetchall():
            joined[term] = joined.get(term, b"") + body
        cursor.execute("DELETE FROM bench_packed WHERE space = %s AND segment >= %s", (tenant.seed, first))
        _insert(cursor, "bench_packed (space, term, segment, body)", _blobs(tenant.seed, joined.items(), first))


class Local:
    """The product's keyword channel, its index built from MySQL in a temporary folder."""

    name = "index of the host (the product)"

    def __init__(self, engine: Engine) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._root = Path(self._folder.name)
        self._indexer = KeywordIndexer(engine, self._root, Resources(settings()).meter)
        self._channel = KeywordChannel(engine, LocalIndexes(self._root, wait_s=0.0))
        self._asked = 0

    def load(self) -> dict[str, float]:
        """Build the index of every tenant, and return the cost in this process and on the disk."""
        before = time.process_time()
        while self._indexer.step().tenants:
            time.sleep(0.05)
        self._indexer.close()
        return {
            "load_process_ms": round((time.process_time() - before) * 1000, 1),
            "load_mb": round(sum(file.stat().st_size for file in self._root.rglob("*") if file.is_file()) / 1e6, 2),
        }

    def add(self, cursor: Cursor, tenant: Tenant, first: int, last: int) -> None:
        """Do nothing: MySQL is not written."""

    def search(self, cursor: Cursor, tenant: Tenant, words: Sequence[int]) -> list[str]:  # noqa: ARG002 - has a pool
        """Call the channel; every question counts as a new one. Raises RuntimeError if MySQL answers it."""
        self._asked += 1
        recalled = self._channel.recall(query(tenant, words, self._asked))
        if (recalled.guard or {})["method"] != "index":
            raise RuntimeError("the index does not answer")
        return list(recalled.chunk_ids)


def make_tables(cursor: Cursor, every: Sequence[Tenant]) -> None:
    """Create empty tables of both kinds of postings, the numbers of the tenants' chunks, and the frequencies of words."""
    for statement in (*_TABLES.values(), _FREQUENCIES):
        cursor.execute(statement)
    for tenant in every:
        cursor.executemany(
            "INSERT INTO bench_frequencies (space, token, chunks) VALUES (%s, %s, %s)",
            [(tenant.seed, tenant.tokens[number], count) for number, count in frequencies(tenant).items()],
        )
        cursor.execute(
            "INSERT INTO bench_numbers SELECT %s, CAST(CONV(RIGHT(chunk_id, 12), 16, 10) AS UNSIGNED), tenant_id, chunk_id"
            " FROM chunks WHERE tenant_id = %s",
            (tenant.seed, tenant.tenant_id),
        )


def query(tenant: Tenant, words: Iterable[int], number: int) -> Query:
    """Return the words as a query of the product."""
    return Query(
        query_id=QueryId(str(number)),
        tenant_id=tenant.tenant_id,
        request_id="bench",
        query_text=" ".join(map(word, words)),
        namespaces=(NAMESPACE,),
        plan=Plan(retrieve=RetrievePlan(channels={"keyword": ChannelPlan(pool=_POOL)})),
        created_at=0.0,
        deadline_at=math.inf,
    )


def exact(tenant: Tenant, words: Sequence[int], frequency: Counter[int], top: int) -> list[int]:
    """Return the best chunks by BM25 over all chunks, to compare with."""
    scores: NDArray[np.float64] = np.zeros(tenant.chunks)
    lengths = np.diff(tenant.starts)
    chunk_of = np.repeat(np.arange(tenant.chunks), lengths)
    damping = K1 * (1 - B + B * lengths / lengths.mean())
    for number in dict.fromkeys(words):
        tf = np.bincount(chunk_of[tenant.words == number], minlength=tenant.chunks)
        scores += weight(tenant.chunks, frequency[number]) * tf / (tf + damping)
    best = np.lexsort((np.arange(tenant.chunks), -scores))[:top]
    chunks: list[int] = best[scores[best] > 0].tolist()
    return chunks


def weight(chunks: int, frequency: int) -> float:
    """Return BM25's ``(k1 + 1) * idf`` of a word in so many of the chunks."""
    return (K1 + 1) * math.log1p((chunks - frequency + 0.5) / (frequency + 0.5))


def _insert_postings(cursor: Cursor, tenant: Tenant, first: int, last: int) -> None:
    columns = tenant.postings(first, last)
    for start in range(0, len(columns[0]), 20_000):
        some = zip(*(column[start : start + 20_000].tolist() for column in columns), strict=True)
        values = [f"({tenant.seed},{term},{chunk},{tf},{length})" for term, chunk, tf, length in some]
        cursor.execute(f"INSERT INTO bench_postings (space, term, chunk, tf, length) VALUES {','.join(values)}")


def _insert_packed(cursor: Cursor, tenant: Tenant, first: int, last: int, *, segment: int) -> None:
    words, chunks, counts, lengths = tenant.postings(first, last)
    postings = np.empty(len(words), _POSTING)
    postings["chunk"], postings["tf"], postings["length"] = chunks, counts, lengths
    distinct, starts = np.unique(words, return_index=True)
    bounds = [*starts.tolist(), len(words)]
    bodies = (
        (number, postings[bounds[index] : bounds[index + 1]].tobytes())
        for index, number in enumerate(distinct.tolist())
    )
    _insert(cursor, "bench_packed (space, term, segment, body)", _blobs(tenant.seed, bodies, segment))


def _blobs(space: int, bodies: Iterable[tuple[int, bytes]], segment: int) -> list[str]:
    return [f"({space},{number},{segment},x'{body.hex()}')" for number, body in bodies]


def _insert(cursor: Cursor, into: str, values: Sequence[str]) -> None:
    for start in range(0, len(values), 4_000):
        cursor.execute(f"INSERT INTO {into} VALUES {','.join(values[start : start + 4_000])}")
