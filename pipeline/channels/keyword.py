"""Recall by words: FULLTEXT proposes, BM25 with the collection's own statistics decides."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, Engine

from pipeline.channels.lexicons import Lexicons
from pipeline.channels.port import Recalled
from pipeline.channels.recent import Recent
from pipeline.core.bm25 import Collection
from pipeline.core.channel_options import keyword_options
from pipeline.core.dictionary import Asked, Lexicon, Rule, read
from pipeline.core.keyword_scoring import Weighed, score, weigh
from pipeline.core.matching import FieldWeights, IndexRows
from pipeline.core.query import Query
from pipeline.core.terms import token
from pipeline.records import ChannelName, ChunkId, DocumentId, Namespace, Scope, TenantId
from pipeline.stores.keyword import NARROW, KeywordIndex, Search, TermsRow
from pipeline.stores.statistics import Statistics
from pipeline.stores.work import reading

# A FULLTEXT search cannot be interrupted, and every row it matches costs 4 µs, so its work is bounded before it starts:
# the rarest terms are searched for, as many as match about this many rows together. docs/decisions/0012.
_MATCHES = NARROW
_MOST_ALONE = 2_000  # rows that one term may match without another one
_ENOUGH = 400  # rows that are expected to hold all of the terms they have to
_LEAST_CANDIDATES = 200
_CANDIDATES_PER_PLACE = 2
_CHUNKS_PER_RULE = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    """A query's terms as the index of each namespace writes them, and what the collection knows of them."""

    asked: Asked
    tokens: dict[Namespace, dict[str, str]]
    frequency: dict[str, int]
    weighed: Weighed
    chunk_count: int
    lags: bool

    def search(self) -> Search:
        """What FULLTEXT is to look for. A term that no chunk holds is in it only while some chunks wait to be counted.

        The rarest terms, as many as stay within the bound together, and one at least. If that one is common, chunks have
        to hold the second rarest too, and the third, as long as enough of them may be expected to.
        """
        known = [term for term in self.asked.terms if self.lags or self.frequency.get(term)]
        rarest = sorted(known, key=lambda term: self.frequency.get(term, 0))
        if not rarest:
            return Search(groups=(), every=False, expected=0)
        chosen, matches = rarest[:1], float(self.frequency.get(rarest[0], 0))
        every = matches > _MOST_ALONE
        for term in rarest[1:]:
            frequency = self.frequency.get(term, 0)
            if every:
                fewer = matches * frequency / max(1, self.chunk_count)
                if matches <= _MOST_ALONE or fewer < _ENOUGH:
                    break
                matches = fewer
            elif matches and matches + frequency > _MATCHES:
                break
            else:
                matches += frequency
            chosen.append(term)
        groups = tuple(tuple(tokens[term] for term in chosen) for tokens in self.tokens.values())
        return Search(groups=groups, every=every, expected=None if self.lags or every else int(matches))

    def score(self, rows: Sequence[TermsRow], fields: FieldWeights) -> dict[ChunkId, float]:
        """BM25 of index rows, by chunk."""
        scores: dict[ChunkId, float] = {}
        by_namespace: defaultdict[Namespace, list[TermsRow]] = defaultdict(list)
        for row in rows:
            by_namespace[row.namespace].append(row)
        for namespace, mine in by_namespace.items():
            if (tokens := self.tokens.get(namespace)) is not None:
                block = IndexRows([row.terms for row in mine], [row.fields for row in mine])
                found = score(self.weighed, block, tokens, fields).tolist()
                scores.update((row.chunk_id, scored) for row, scored in zip(mine, found, strict=True))
        return scores


@dataclass(frozen=True, slots=True)
class KeywordChannel:
    """The keyword index in MySQL."""

    mysql: Engine
    name: ChannelName = ChannelName.KEYWORD
    _known: Recent[_Words] = field(default_factory=lambda: Recent(256))
    _lexicons: Lexicons = field(default_factory=Lexicons)

    def recall(self, query: Query) -> Recalled:
        """The best chunks by BM25 among those that hold any of the query's words, and what a rule adds to them."""
        with reading(self.mysql) as connection:
            index = KeywordIndex(connection, query.tenant_id)
            words = self._words(connection, query)
            limit = max(_LEAST_CANDIDATES, _CANDIDATES_PER_PLACE * query.pool_of(self.name))
            rows = index.candidates(query.namespaces, words.search(), filters=query.filters, limit=limit)
            rules = [rule for rule in words.asked.rules if rule.namespace in query.namespaces]
            ruled = [(rule, _documents_rows(index, rule, query)) for rule in rules]
        known = {row.chunk_id for row in rows}
        extra = {row.chunk_id: row for _, more in ruled for row in more if row.chunk_id not in known}
        scores = words.score([*rows, *extra.values()], self._fields(query))
        _apply(ruled, scores, bound=words.weighed.bound)
        best = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[: query.pool_of(self.name)]
        return Recalled(
            chunk_ids=tuple(chunk_id for chunk_id, _ in best),
            scores=tuple(scored for _, scored in best),
            upper_bound=words.weighed.bound,
        )

    def score(self, query: Query, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, float]:
        """BM25 of chunks that another channel found; 0 where no word of the query occurs."""
        if not chunk_ids:
            return {}
        with reading(self.mysql) as connection:
            index = KeywordIndex(connection, query.tenant_id)
            words = self._words(connection, query)
            rows = index.rows(chunk_ids)
        return words.score(rows, self._fields(query))

    def terms(self, query: Query) -> tuple[str, ...]:
        """The query's words and their synonyms, stop words left out."""
        with reading(self.mysql) as connection:
            return read(query.query_text, self._lexicons.get(connection, query.tenant_id, query.namespaces)).terms

    def _fields(self, query: Query) -> FieldWeights:
        return keyword_options(query.plan.channels.get(self.name)).fields

    def _words(self, connection: Connection, query: Query) -> _Words:
        """What the collection knows of the query's words; asked once, though the channel is asked twice."""

        def make() -> _Words:
            lexicon = self._lexicons.get(connection, query.tenant_id, query.namespaces)
            return _words(Statistics(connection, query.tenant_id), query.tenant_id, query, lexicon)

        return self._known.get((query.tenant_id, query.query_id, query.query_text), make)


def _words(statistics: Statistics, tenant_id: TenantId, query: Query, lexicon: Lexicon) -> _Words:
    asked = read(query.query_text, lexicon)
    terms = asked.terms
    tokens = {
        namespace: {term: token(Scope(tenant_id=tenant_id, namespace=namespace), term) for term in terms}
        for namespace in query.namespaces
    }
    sizes, found = statistics.of_query(
        query.namespaces, [token for of_one in tokens.values() for token in of_one.values()]
    )
    frequency = {term: sum(found.get(of_one[term], 0) for of_one in tokens.values()) for term in terms}
    collection = Collection(
        chunk_count=sum(size.chunk_count for size in sizes.values()),
        term_count=sum(size.term_count for size in sizes.values()),
        chunk_frequency=frequency,
    )
    return _Words(
        asked=asked,
        tokens=tokens,
        frequency=frequency,
        weighed=weigh(asked, collection),
        chunk_count=collection.chunk_count,
        lags=any(size.lags for size in sizes.values()),
    )


def _documents_rows(index: KeywordIndex, rule: Rule, query: Query) -> list[TermsRow]:
    document = (Namespace(rule.namespace), DocumentId(rule.document_id))
    return index.of_documents([document], filters=query.filters, limit=_CHUNKS_PER_RULE)


def _apply(ruled: Sequence[tuple[Rule, Sequence[TermsRow]]], scores: dict[ChunkId, float], *, bound: float) -> None:
    """A rule's document scores ``boost`` times higher, and its best chunk at least half as many times what the best of
    all had; nothing scores above the bound."""
    highest = max(scores.values(), default=0.0)
    for rule, rows in ruled:
        for row in rows:
            scores[row.chunk_id] = min(bound, scores[row.chunk_id] * rule.boost)
        if rows:
            best = max(rows, key=lambda row: scores[row.chunk_id]).chunk_id
            scores[best] = max(scores[best], min(bound, rule.boost / 2 * highest))
