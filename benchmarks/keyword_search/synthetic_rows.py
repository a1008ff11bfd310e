"""Tenants of chosen sizes with synthetic chunks, as rows of the product's own tables. Words follow `benchmarks.corpus`.

Chunks are drawn as terms and never parsed, so 200,000 of them take a minute.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pymysql
from numpy.typing import NDArray

from pipeline.database.rows import now
from pipeline.keyword.terms import Tokenizer
from pipeline.records import Namespace, Scope, TenantId

NAMESPACE = Namespace("kb")
_VOCABULARY = 20_000
_TERMS = (110, 150)  # of a chunk: from, up to but not including
_CHUNKS_PER_DOCUMENT = 4
_TEXT = "This stands for the text of a chunk, which takes its room in the row beside the terms. " * 10
_ROWS_AT_ONCE = 500
_LETTERS = str.maketrans("0123456789", "bcdfghjkmn")

Cursor = pymysql.cursors.Cursor


@dataclass(frozen=True)
class Tenant:
    """A tenant and its chunks: ``words[start[i]:start[i + 1]]`` are the words of chunk i, as numbers."""

    tenant_id: TenantId
    chunks: int
    seed: int

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Return the position of each chunk's first word, and at last the total."""
        lengths = np.random.default_rng([self.seed, 0]).integers(*_TERMS, size=self.chunks)
        return np.concatenate([[0], np.cumsum(lengths)])

    @cached_property
    def words(self) -> NDArray[np.int32]:
        """Return the words of all chunks, drawn by Zipf's law."""
        weights = 1.0 / np.arange(2, _VOCABULARY + 2)
        random = np.random.default_rng([self.seed, 1])
        drawn = random.choice(_VOCABULARY, size=int(self.starts[-1]), p=weights / weights.sum())
        return drawn.astype(np.int32)

    @cached_property
    def tokens(self) -> NDArray[np.object_]:
        """Return the token of each word in this tenant's namespace."""
        tokenizer = Tokenizer(Scope(tenant_id=self.tenant_id, namespace=NAMESPACE))
        return np.array([tokenizer.token(word(number)) for number in range(_VOCABULARY)], dtype=object)

    def of(self, chunk: int) -> NDArray[np.int32]:
        """Return the words of one chunk."""
        return self.words[self.starts[chunk] : self.starts[chunk + 1]]

    def postings(self, first: int, last: int) -> tuple[NDArray[np.int64], ...]:
        """Return word, chunk, occurrences and length of the chunk for chunks ``first`` to before ``last``; by word,
        then chunk."""
        lengths = np.diff(self.starts[first : last + 1])
        chunk = np.repeat(np.arange(first, last), lengths)
        words = self.words[self.starts[first] : self.starts[last]].astype(np.int64)
        keys, counts = np.unique(words * 2**32 + chunk, return_counts=True)
        chunks = keys % 2**32
        return keys // 2**32, chunks, counts, lengths[chunks - first]

    def questions(self, count: int) -> list[list[int]]:
        """Return questions of four consecutive words from randomly chosen chunks."""
        random = np.random.default_rng([self.seed, 2])
        questions = []
        for chunk in random.integers(0, self.chunks, size=count):
            at = int(random.integers(0, 100))
            questions.append(self.of(int(chunk))[at : at + 4].tolist())
        return questions


def word(number: int) -> str:
    """Return the word of this number: one term that the stemmer does not change and that is not a code."""
    return f"q{str(number).translate(_LETTERS)}k"


def tenants(chunks: int) -> list[Tenant]:
    """Return one tenant with half of the chunks, and fifty with a fiftieth of the other half each."""
    half = Tenant(TenantId("bench-50"), chunks // 2, 1)
    return [half, *(Tenant(TenantId(f"bench-01-{number:02d}"), chunks // 100, 2 + number) for number in range(50))]


def load(cursor: Cursor, tenant: Tenant) -> None:
    """Insert documents, generations and chunks of a tenant."""
    key = (tenant.tenant_id, NAMESPACE)
    moment = now()
    cursor.execute(
        "INSERT INTO namespaces (tenant_id, namespace, chunk_count, term_count, created_at) VALUES (%s, %s, %s, %s, %s)",
        (*key, tenant.chunks, int(tenant.starts[-1]), moment),
    )
    cursor.executemany(
        "INSERT INTO documents (tenant_id, namespace, document_id, latest_generation, published_generation, created_at,"
        " updated_at) VALUES (%s, %s, %s, %s, %s, %s, %s)",
        [(*key, document, 1, 1, moment, moment) for document in _documents(tenant)],
    )
    empty, job = hashlib.sha256(b"").digest(), str(uuid.UUID(int=tenant.seed))
    cursor.executemany(
        "INSERT INTO generations (tenant_id, namespace, document_id, generation, job_id, tags, metadata, chunking,"
        " media_type, content_hash, created_at) VALUES (%s, %s, %s, 1, %s, '[]', '{}', '{}', 'text/plain', %s, %s)",
        [(*key, document, job, empty, moment) for document in _documents(tenant)],
    )
    write(cursor, tenant, 0, tenant.chunks)


def write(cursor: Cursor, tenant: Tenant, first: int, last: int, *, commit: int = 0, table: str = "chunks") -> None:
    """Insert rows of `chunks`, or of another table like it; commit after every ``commit`` rows, if given."""
    moment, hashed = now(), hashlib.sha256(b"").digest()
    for start in range(first, last, commit or _ROWS_AT_ONCE):
        rows = []
        for chunk in range(start, min(last, start + (commit or _ROWS_AT_ONCE))):
            tokens = tenant.tokens[tenant.of(chunk)]
            identity = (
                f"d{chunk // _CHUNKS_PER_DOCUMENT:07d}",
                1,
                chunk % _CHUNKS_PER_DOCUMENT,
                chunk_id(tenant, chunk),
            )
            content = (_TEXT, "[]", 0, len(_TEXT), 200, hashed, " ".join(tokens), len(tokens), moment)
            rows.append((tenant.tenant_id, NAMESPACE, *identity, *content))
        cursor.executemany(_CHUNK.format(table=table), rows)
        if commit:
            cursor.connection.commit()


def chunk_id(tenant: Tenant, chunk: int) -> str:
    """Return a stable id for a chunk."""
    return str(uuid.UUID(int=(tenant.seed << 64) + chunk))


def frequencies(tenant: Tenant) -> Counter[int]:
    """Return the number of chunks in which each word occurs."""
    return Counter(tenant.postings(0, tenant.chunks)[0].tolist())


def _documents(tenant: Tenant) -> Iterator[str]:
    return (f"d{number:07d}" for number in range(-(-tenant.chunks // _CHUNKS_PER_DOCUMENT)))


_CHUNK = (
    "INSERT INTO {table} (tenant_id, namespace, document_id, generation, ordinal, chunk_id, text, heading_path,"
    " start_offset, end_offset, token_count, content_hash, terms, term_count, created_at)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)
