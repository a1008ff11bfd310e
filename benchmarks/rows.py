"""The corpus as rows of both stores, made by the product's own pure functions and timed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.corpus import MAX_TOKENS, Text
from pipeline.ingestion.assemble import assemble
from pipeline.keyword.terms import Tokenizer
from pipeline.models.make_models import make_embedder
from pipeline.parsing import parse
from pipeline.records import Chunk, Chunking, DocumentId, Generation, Namespace, Scope, TenantId
from pipeline.settings import settings


@dataclass(frozen=True, slots=True)
class Prepared:
    """Chunks with their vectors, and the cost of making them on one processor, in milliseconds a chunk."""

    chunks: list[Chunk]
    vectors: NDArray[np.float32]
    parse_ms: float
    embed_ms: float


def prepare(texts: Sequence[Text], *, tenant_id: str, namespace: str) -> Prepared:
    """Parse, cut, analyse and embed everything once, in this process."""
    scope = Scope(tenant_id=TenantId(tenant_id), namespace=Namespace(namespace))
    tokenizer, chunking = Tokenizer(scope), Chunking(max_tokens=MAX_TOKENS)
    began = time.process_time()
    chunks: list[Chunk] = []
    for text in texts:
        generation = Generation(scope=scope, document_id=DocumentId(text.document_id), number=1)
        parsed = parse(text.text.encode(), media_type="text/plain", filename=None)
        chunks += assemble(
            parsed, generation, title=text.title, chunking=chunking, tokenizer=tokenizer, limit=1_000_000
        ).chunks
    parse_s = time.process_time() - began
    embedder = make_embedder(settings())
    embedder.embed(["warm up"])
    began = time.process_time()
    vectors = embedder.embed([chunk.embedding_text for chunk in chunks])
    embed_s = time.process_time() - began
    embedder.close()
    per_ms = 1000 / len(chunks)
    return Prepared(chunks=chunks, vectors=vectors, parse_ms=parse_s * per_ms, embed_ms=embed_s * per_ms)
