"""Tenants of chosen sizes with chunks that are drawn as terms and never parsed. Words follow `benchmarks.corpus`."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pipeline.keyword.terms import Tokenizer
from pipeline.records import Namespace, Scope, TenantId

NAMESPACE = Namespace("kb")
_VOCABULARY = 20_000
_TERMS = (110, 150)  # of a chunk: from, up to but not including
_LETTERS = str.maketrans("0123456789", "bcdfghjkmn")


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
        return np.array([tokenizer.token(spelling(number)) for number in range(_VOCABULARY)], dtype=object)

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


def spelling(number: int) -> str:
    """Return the word of this number: one term that the stemmer does not change and that is not a code."""
    return f"q{str(number).translate(_LETTERS)}k"


def chunk_id(tenant: Tenant, chunk: int) -> str:
    """Return a stable id for a chunk."""
    return str(uuid.UUID(int=(tenant.seed << 64) + chunk))
