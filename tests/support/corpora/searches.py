"""Both searches over passages in memory, with the product's analysis, scores, model and fusion, and without a server."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.channels.keyword_channel import KeywordChannel
from pipeline.channels.semantic_channel import SearchedSpace, SemanticChannel
from pipeline.chunking.cut import embedding_text
from pipeline.keyword.dictionary import Lexicon
from pipeline.keyword.indexed_fields import indexed
from pipeline.keyword.query_words import Candidates, NamespaceSize, QueryWords, TermsRow, words_of
from pipeline.keyword.terms import tokenizer_of
from pipeline.models.ports import Embedder, Matrix
from pipeline.query.plan import Plan
from pipeline.query.request import Query, RecallGuard
from pipeline.ranking.fusion import Fused, terms_of
from pipeline.records import ChannelName, ChunkId, Namespace, Passage, Scope, TenantId
from pipeline.retrieval.arrived import Arrived, Journal
from pipeline.retrieval.ask_channels import envelope_of
from pipeline.retrieval.build_plan import plan_of
from pipeline.retrieval.fuse import add_coverage, fuse, support_neighbours
from pipeline.semantic.search_store import NearestChunks
from pipeline.settings import load
from tests.support.corpora.queries import query_of

TENANT, NAMESPACE = TenantId("t"), Namespace("n")


class Words:
    """A `WordIndex` of rows in memory."""

    counts_all = True

    def __init__(self, rows: Mapping[ChunkId, TermsRow]) -> None:
        self._rows = rows
        self._lengths = sum((len(row.terms) + 1) // 14 for row in rows.values())
        self._tokens = {chunk_id: frozenset(row.terms.split()) for chunk_id, row in rows.items()}
        self._held = Counter(token.decode() for tokens in self._tokens.values() for token in tokens)

    def sizes(self, namespaces: Sequence[Namespace]) -> dict[Namespace, NamespaceSize]:
        return {name: NamespaceSize(chunk_count=len(self._rows), term_count=self._lengths) for name in namespaces}

    def frequencies(self, tokens: Sequence[str], sizes: object) -> dict[str, int]:
        return {token: self._held[token] for token in tokens if token in self._held}

    def existing(self, tokens: Sequence[str]) -> list[str]:
        return [token for token in tokens if token in self._held]

    def candidates(self, words: QueryWords, **limits: object) -> Candidates:
        terms = words.keyword_query.terms
        wanted = {tokens[term].encode() for tokens in words.tokens.values() for term in terms}
        rows = [self._rows[chunk_id] for chunk_id, tokens in self._tokens.items() if not wanted.isdisjoint(tokens)]
        return Candidates(rows=rows, method="memory", may_be_short=False)

    def rows(self, chunk_ids: Sequence[ChunkId]) -> list[TermsRow]:
        return [self._rows[chunk_id] for chunk_id in chunk_ids]

    own_rows = rows


@dataclass(frozen=True)
class Engine:
    """The engine of a query, with the same index for all."""

    words: Words
    index: None = None

    def on(self, _connection: object) -> Words:
        return self.words


class MemoryKeyword(KeywordChannel):
    """The keyword channel over rows in memory."""

    def __init__(self, rows: Mapping[ChunkId, TermsRow]) -> None:
        super().__init__(mysql=None)  # type: ignore[arg-type]
        object.__setattr__(self, "engine", Engine(Words(rows)))

    def _begun(self, _connection: object, query: Query) -> Any:
        words = self.engine.words  # type: ignore[attr-defined]
        return self.engine, words_of(  # type: ignore[attr-defined]
            words, query.query_text, Lexicon(), tenant_id=TENANT, namespaces=query.namespaces
        )

    def indexed(self, _query: Query, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, Any]:
        rows = self.engine.words.rows(chunk_ids)  # type: ignore[attr-defined]
        return {row.chunk_id: terms_of(row.terms) for row in rows}


class Vectors:
    """The vectors of passages in memory, for the semantic channel."""

    def __init__(self, ids: Sequence[ChunkId], vectors: Matrix) -> None:
        self._ids, self._vectors = ids, vectors
        self._places = {chunk_id: place for place, chunk_id in enumerate(ids)}

    def nearest(self, vector: Matrix, *, limit: int, **_: object) -> NearestChunks:
        scores = (self._vectors @ vector).tolist()
        hits = sorted(zip(self._ids, scores, strict=True), key=lambda hit: (-hit[1], hit[0]))
        return NearestChunks(hits=tuple(hits[:limit]), guard=RecallGuard(method="exact"))

    def scores(self, vector: Matrix, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, float]:
        return {chunk_id: float(self._vectors[self._places[chunk_id]] @ vector) for chunk_id in chunk_ids}


class Searches:
    """A namespace of passages that is searched by words, by meaning, or by both with the default plan."""

    def __init__(self, texts: Iterable[str], embedder: Embedder) -> None:
        passages = [Passage(index=0, text=text, start=0, end=len(text), token_count=0) for text in texts]
        self.ids = [ChunkId(f"{number:06}") for number in range(len(passages))]
        self.texts = {chunk_id: passage.text for chunk_id, passage in zip(self.ids, passages, strict=True)}
        tokenizer = tokenizer_of(Scope(tenant_id=TENANT, namespace=NAMESPACE))
        rows = {}
        for chunk_id, passage in zip(self.ids, passages, strict=True):
            tokens = indexed(passage, None, strategy="sentences", tokenizer=tokenizer)
            rows[chunk_id] = TermsRow(chunk_id, NAMESPACE, " ".join(tokens.terms).encode(), tokens.fields)
        vectors = Vectors(self.ids, np.asarray(embedder.embed([embedding_text(each, None) for each in passages])))
        space = SearchedSpace(
            number=1, table="", embedder=embedder, vectors=lambda _: vectors, search=lambda _: vectors
        )
        keyword, semantic = MemoryKeyword(rows), SemanticChannel(lambda _: space)
        self._channels = {ChannelName.KEYWORD: keyword, ChannelName.SEMANTIC: semantic}

    def ask(self, text: str, method: str = "hybrid", *, trace: bool = False) -> tuple[list[Fused], Journal]:
        """Return the fused hits, best first, and the journal of the composition."""
        plan = plan_of(load({}), {}, {"retrieve": {"method": method}})
        return self.fused(query_of(text, plan=plan, trace=trace, deadline_s=60.0, created_at=time.time()))

    def fused(self, query: Query) -> tuple[list[Fused], Journal]:
        """Return the fused hits of a query, best first, and the journal of the composition."""
        hits, arrived = self.composed(query)
        return hits, arrived.journal

    def composed(self, query: Query) -> tuple[list[Fused], Arrived]:
        """Return the fused hits of a query, best first, and what they were composed of."""
        channels = {name: channel for name, channel in self._channels.items() if name in query.channels}
        envelopes = {name: envelope_of(channel, channel.recall(query)) for name, channel in channels.items()}
        arrived = Arrived(query=query, envelopes=envelopes, elapsed_ms={})
        fused = add_coverage(arrived, fuse(arrived, channels), channels)
        return support_neighbours(arrived, fused, None, channels), arrived  # type: ignore[arg-type]

    def first(self, text: str, method: str = "hybrid") -> str:
        """Return the passage in the first place; empty without hits."""
        hits, journal = self.ask(text, method)
        assert not journal.degradations, journal.degradations
        return self.texts[hits[0].chunk_id] if hits else ""


def plan_with(**changes: Any) -> Plan:
    """Return the default plan with some parts changed."""
    return plan_of(load({}), {}, changes)
