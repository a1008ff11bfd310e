"""Recall by words: FULLTEXT proposes, BM25 with the collection's own statistics decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection, Engine

from pipeline.channels.port import Recalled
from pipeline.channels.recent import Recent
from pipeline.core.bm25 import Collection, bm25, count_within, upper_bound
from pipeline.core.query import Query
from pipeline.core.terms import query_terms, token
from pipeline.records import ChannelName, ChunkId, Namespace, Scope, TenantId
from pipeline.stores.keyword import KeywordIndex, TermsRow
from pipeline.stores.statistics import Statistics
from pipeline.stores.work import reading

# A FULLTEXT search cannot be interrupted, so its work is bounded before it starts: it may match about this many rows.
# Searching for the rarest terms only loses nothing that BM25 would rank high: docs/decisions/0001.
_MATCHES = 1_000
_LEAST_TERMS = 2
_CANDIDATES_PER_PLACE = 2
_LEAST_CANDIDATES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    """A query's terms as the index of each namespace writes them, and what the collection knows of them."""

    terms: tuple[str, ...]
    tokens: dict[Namespace, tuple[str, ...]]
    collection: Collection
    lags: bool

    def selective(self) -> list[str]:
        """The tokens to search for: the rarest terms first, as many as stay within the bound. A term that no chunk holds
        is looked for only while some chunks wait to be counted."""
        frequency = self.collection.chunk_frequency
        known = [term for term in self.terms if self.lags or frequency.get(term)]
        chosen: list[int] = []
        matches = 0
        for term in sorted(known, key=lambda term: frequency.get(term, 0)):
            matches += frequency.get(term, 0)
            if len(chosen) >= _LEAST_TERMS and matches > _MATCHES:
                break
            chosen.append(self.terms.index(term))
        return [tokens[place] for tokens in self.tokens.values() for place in chosen]

    def score(self, rows: Sequence[TermsRow]) -> dict[ChunkId, float]:
        """BM25 of index rows, by chunk."""
        scores: dict[ChunkId, float] = {}
        for namespace, tokens in self.tokens.items():
            mine = [row for row in rows if row.namespace == namespace]
            counted = count_within([row.terms for row in mine], tokens)
            # The tokens of a namespace stand for the query's terms in their order.
            frequency = [self.collection.chunk_frequency.get(term, 0) for term in self.terms]
            collection = replace(self.collection, chunk_frequency=dict(zip(tokens, frequency, strict=True)))
            found = bm25(tokens, counted, collection)
            scores.update((row.chunk_id, score) for row, score in zip(mine, found, strict=True))
        return scores


@dataclass(frozen=True, slots=True)
class KeywordChannel:
    """The keyword index in MySQL."""

    mysql: Engine
    name: ChannelName = ChannelName.KEYWORD
    _known: Recent[_Words] = field(default_factory=lambda: Recent(256))

    def recall(self, query: Query) -> Recalled:
        """The best chunks by BM25 among those that hold any of the query's words."""
        with reading(self.mysql) as connection:
            index = KeywordIndex(connection, query.tenant_id)
            words = self._words(connection, query)
            rows = index.candidates(
                query.namespaces,
                words.selective(),
                filters=query.filters,
                limit=max(_LEAST_CANDIDATES, _CANDIDATES_PER_PLACE * query.pool_of(self.name)),
            )
        scored = sorted(words.score(rows).items(), key=lambda pair: (-pair[1], pair[0]))[: query.pool_of(self.name)]
        return Recalled(
            chunk_ids=tuple(chunk_id for chunk_id, _ in scored),
            scores=tuple(score for _, score in scored),
            upper_bound=upper_bound(words.terms, words.collection),
        )

    def score(self, query: Query, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, float]:
        """BM25 of chunks that another channel found; 0 where no word of the query occurs."""
        if not chunk_ids:
            return {}
        with reading(self.mysql) as connection:
            index = KeywordIndex(connection, query.tenant_id)
            words = self._words(connection, query)
            rows = index.rows(chunk_ids)
        return words.score(rows)

    def _words(self, connection: Connection, query: Query) -> _Words:
        """What the collection knows of the query's words; asked once, though the channel is asked twice."""
        return self._known.get(
            (query.tenant_id, query.query_id, query.query_text),  # a query may be asked in several wordings
            lambda: _words(Statistics(connection, query.tenant_id), query.tenant_id, query),
        )


def _words(statistics: Statistics, tenant_id: TenantId, query: Query) -> _Words:
    terms = tuple(query_terms(query.query_text))
    tokens = {
        namespace: tuple(token(Scope(tenant_id=tenant_id, namespace=namespace), term) for term in terms)
        for namespace in query.namespaces
    }
    sizes = statistics.sizes(query.namespaces)
    found = statistics.frequencies(query.namespaces, [token for group in tokens.values() for token in group])
    frequency = {term: sum(found.get(group[place], 0) for group in tokens.values()) for place, term in enumerate(terms)}
    collection = Collection(
        chunk_count=sum(size.chunk_count for size in sizes.values()),
        term_count=sum(size.term_count for size in sizes.values()),
        chunk_frequency=frequency,
    )
    lags = any(size.lags for size in sizes.values())
    return _Words(terms=terms, tokens=tokens, collection=collection, lags=lags)
