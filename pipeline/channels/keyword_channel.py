"""Recall by words: BM25 over the chunks that this host's keyword index proposes, or FULLTEXT where there is none."""

from __future__ import annotations

import functools
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine

from pipeline.caches import RecentValues
from pipeline.channels.channel import Recalled
from pipeline.channels.dictionary_cache import Lexicons
from pipeline.channels.host_index import HostIndex
from pipeline.channels.local_indexes import IndexAtRevision, LocalIndexes
from pipeline.database.unit_of_work import reading_if_asked
from pipeline.errors import Unavailable
from pipeline.filters.filter_terms import EVERYTHING, Clause, clause_of
from pipeline.keyword.bm25 import Collection
from pipeline.keyword.dictionary import KeywordQuery, Lexicon, Rule, read
from pipeline.keyword.fulltext_store import NARROW, KeywordIndex, Search, TermsRow
from pipeline.keyword.matching import FieldWeights, IndexRows
from pipeline.keyword.scoring import Weighed, coverage, score, weigh
from pipeline.keyword.spellings import near_spellings
from pipeline.keyword.statistics_store import NamespaceStatistics, Statistics
from pipeline.keyword.terms import tokenizer_of
from pipeline.keyword_index.index_faults import IndexDamaged
from pipeline.keyword_index.indexed_chunk_store import NamespaceState
from pipeline.keyword_index.local_index_store import Wanted
from pipeline.query.channel_options import keyword_options
from pipeline.query.request import Query
from pipeline.ranking.neighbours import Terms, terms_of
from pipeline.records import ChannelName, ChunkId, DocumentId, Namespace, Scope, TenantId

_QueryKey = tuple[str, str, str]
P = ParamSpec("P")
T = TypeVar("T")

# A FULLTEXT search cannot be interrupted, and every row it matches costs 4 µs, so its work is bounded before it starts:
# the rarest terms are searched for, as many as match about this many rows together. docs/decisions/0012.
_MATCHES = NARROW
_MOST_ALONE = 2_000  # rows that one term may match without another one
_ENOUGH = 400  # rows that are expected to hold all of the terms they have to
_LEAST_CANDIDATES = 200
_CANDIDATES_PER_PLACE = 2
_CHUNKS_PER_RULE = 5
_MOST_KNOWN = 32  # queries; each may hold files of the index open that were merged away since, and some 200 rows
_LEAST_PROPOSED = 100  # by this host's index
_PROPOSED_PER_PLACE = 1.25  # its order differs from BM25's by rounded lengths alone
_MOST_SPELLINGS = 4_000  # looked up for words that no chunk holds, those of each namespace counted
_MOST_CHANGED = 1_000  # chunks of documents that changed after the index was brought up to date


@dataclass(frozen=True, slots=True)
class _Block:
    """Chunks of one namespace, in order, and where tokens stand in them."""

    namespace: Namespace
    chunk_ids: Sequence[ChunkId]
    rows: IndexRows


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    """A query's terms as the index of each namespace writes them, and what the collection knows of them, at one moment.
    ``standing``: the index that says it; None for MySQL. ``rows``: those that were read of it for this query."""

    asked: KeywordQuery
    tokens: dict[Namespace, dict[str, str]]
    frequency: dict[str, int]
    weighed: Weighed
    chunk_count: int
    lags: bool
    standing: IndexAtRevision | None = None
    rows: dict[ChunkId, TermsRow] = field(default_factory=dict)

    def wanted(self, clause: Clause) -> Wanted:
        """Return what this host's index is to look for. Phrases and ways of several terms count by their terms there."""
        groups: list[dict[str, float]] = []
        for tokens in self.tokens.values():
            for ways in self.weighed.units:
                worth = [{tokens[term]: worth for term, worth in way.weights.items()} for way in ways]
                if all(len(each) == 1 for each in worth):
                    groups.append({token: value for each in worth for token, value in each.items()})
                else:
                    groups += ({token: value} for each in worth for token, value in each.items())
        without = self.standing.changed if self.standing else ()
        return Wanted(groups=[group for group in groups if any(group.values())], clause=clause, without=without)

    def search(self) -> Search:
        """What FULLTEXT is to look for. A term that no chunk holds is in it only while some chunks wait to be counted.

        The rarest terms, as many as stay within the bound together, and one at least. If that one is common, chunks have
        to hold the second rarest too, and the third, as long as enough of them may be expected to.
        """
        known = [term for term in self.asked.terms if self.lags or self.frequency.get(term)]
        rarest = sorted(known, key=lambda term: self.frequency.get(term, 0))
        if not rarest:
            return Search(groups=(), every=False, expected=0, complete=True)
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
        return Search(
            groups=groups,
            every=every,
            expected=None if self.lags or every else int(matches),
            complete=len(chosen) == len(known) and not every,
        )

    def score(self, blocks: Sequence[_Block], fields: FieldWeights) -> dict[ChunkId, float]:
        """BM25 of chunks."""
        scores: dict[ChunkId, float] = {}
        for block in blocks:
            every = score(self.weighed, block.rows, self.tokens[block.namespace], fields)
            scores.update(zip(block.chunk_ids, every.tolist(), strict=True))
        return scores

    def coverage(self, blocks: Sequence[_Block], fields: FieldWeights) -> dict[ChunkId, float]:
        """How much of the query chunks hold."""
        held = coverage(self.asked, [(block.rows, self.tokens[block.namespace]) for block in blocks], fields)
        return dict(zip((chunk_id for block in blocks for chunk_id in block.chunk_ids), held, strict=True))

    def of_rows(self, rows: Sequence[TermsRow]) -> list[_Block]:
        """Index rows of the query's namespaces."""
        by_namespace: defaultdict[Namespace, list[TermsRow]] = defaultdict(list)
        for row in rows:
            if row.namespace in self.tokens:
                by_namespace[row.namespace].append(row)
        return [
            _Block(
                namespace,
                [row.chunk_id for row in mine],
                IndexRows([row.terms for row in mine], [row.fields for row in mine]),
            )
            for namespace, mine in by_namespace.items()
        ]


def _without_damage(method: Callable[Concatenate[KeywordChannel, Query, P], T]) -> Callable[..., T]:
    """Do it again by MySQL if this host's index turns out to be damaged."""

    @functools.wraps(method)
    def guarded(channel: KeywordChannel, query: Query, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(channel, query, *args, **kwargs)
        except IndexDamaged:
            channel.distrust(query)
            return method(channel, query, *args, **kwargs)

    return guarded


@dataclass(frozen=True, slots=True)
class KeywordChannel:
    """The keyword index in MySQL, and the one of this host in ``local``; None for the engine ``mysql``."""

    mysql: Engine
    local: LocalIndexes | None = None
    name: ChannelName = ChannelName.KEYWORD
    clock: Callable[[], float] = time.monotonic
    _known: RecentValues[_QueryKey, _Words] = field(default_factory=lambda: RecentValues(_MOST_KNOWN))
    _lexicons: Lexicons = field(init=False)
    _host: HostIndex = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_lexicons", Lexicons(self.mysql, clock=self.clock))
        object.__setattr__(self, "_host", HostIndex(self.mysql, self.local))

    @_without_damage
    def recall(self, query: Query) -> Recalled:
        """The best chunks by BM25 among those that hold any of the query's words, and what a rule adds to them."""
        fields, pool = self._fields(query), query.pool_of(self.name)
        with reading_if_asked(self.mysql) as connection:
            words = self._words(connection, query)
            rules = [rule for rule in words.asked.rules if rule.namespace in query.namespaces]
            clause = _clause(query, words.standing)
            if words.standing is not None and clause is not None:
                rows = _proposed(connection, query, words.standing, words.wanted(clause), pool)
                words.rows.update((row.chunk_id, row) for row in rows)
                scores = words.score(words.of_rows(rows), fields)
                guard = {"method": "index", "rows": len(rows), "may_be_short": False, **_age(query, words.standing)}
            else:
                limit, search = max(_LEAST_CANDIDATES, _CANDIDATES_PER_PLACE * pool), words.search()
                index = KeywordIndex(connection(), query.tenant_id)
                rows = index.candidates(query.namespaces, search, filters=query.filters, limit=limit)
                scores = words.score(words.of_rows(rows), fields)
                has_all = search.complete and (len(rows) < limit if query.filters else search.is_narrow)
                guard = {"method": "fulltext", "rows": len(rows), "may_be_short": not has_all}
            ruled = [(rule, _documents_rows(connection, rule, query, words.standing)) for rule in rules]
        extra = {row.chunk_id: row for _, more in ruled for row in more if row.chunk_id not in scores}
        scores |= words.score(words.of_rows(list(extra.values())), fields)
        _apply(ruled, scores, bound=words.weighed.bound)
        best = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:pool]
        return Recalled(
            chunk_ids=tuple(chunk_id for chunk_id, _ in best),
            scores=tuple(scored for _, scored in best),
            upper_bound=words.weighed.bound,
            zero=0.0,
            guard=guard,
        )

    @_without_damage
    def score(self, query: Query, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, float]:
        """BM25 of chunks that another channel found; 0 where no word of the query occurs."""
        if not chunk_ids:
            return {}
        with reading_if_asked(self.mysql) as connection:
            words = self._words(connection, query)
            blocks = self._blocks(connection, query, words, chunk_ids)
        return words.score(blocks, self._fields(query))

    @_without_damage
    def coverage(self, query: Query, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, float]:
        """How much of the query these chunks hold; see `keyword_scoring.coverage` and `ranking.coverage`. Nothing is told
        of a query without words, and where a rule of the dictionary has a document stand higher than its words would."""
        with reading_if_asked(self.mysql) as connection:
            words = self._words(connection, query)
            ruled = any(rule.namespace in query.namespaces for rule in words.asked.rules)
            untold = ruled or not words.asked.terms
            blocks = [] if untold else self._blocks(connection, query, words, chunk_ids)
        return words.coverage(blocks, self._fields(query))

    @_without_damage
    def indexed(self, query: Query, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, Terms] | None:
        """The tokens of these chunks, where this host's index has them as they were when the query was sent."""
        if self.local is None:
            return None
        with reading_if_asked(self.mysql) as connection:
            words = self._words(connection, query)
        if words.standing is None:
            return None
        found = {row.chunk_id: terms_of(row.terms) for row in _rows_of_index(words, words.standing, chunk_ids)}
        return found if len(found) == len(set(chunk_ids)) or not words.standing.is_current else None

    def terms(self, query: Query) -> tuple[str, ...]:
        """The query's words, their synonyms and the spellings that stand in for them, stop words left out."""
        with reading_if_asked(self.mysql) as connection:
            return self._words(connection, query).asked.terms

    def distrust(self, query: Query) -> None:
        """Ask MySQL from now on what this query's index was asked, until that is built anew."""
        self._host.distrust(query)
        self._known.forget(_key(query))

    def _fields(self, query: Query) -> FieldWeights:
        return keyword_options(query.plan.channels.get(self.name)).fields

    def _blocks(
        self, connection: Callable[[], Connection], query: Query, words: _Words, chunk_ids: Sequence[ChunkId]
    ) -> list[_Block]:
        """Given chunks out of this host's index, or MySQL's."""
        if words.standing is not None:
            return words.of_rows(_rows_of(connection, query, words, words.standing, chunk_ids))
        return words.of_rows(KeywordIndex(connection(), query.tenant_id).rows(chunk_ids))

    def _words(self, connection: Callable[[], Connection], query: Query) -> _Words:
        """What the collection knows of the query's words; asked once, though the channel is asked twice."""

        def make() -> _Words:
            lexicon, standing = self._lexicon(query), self._host.standing(query)
            if standing is not None:
                return _words_of_index(standing, query, lexicon)
            return _words(Statistics(connection(), query.tenant_id), query, lexicon)

        return self._known.get(_key(query), make)

    def _lexicon(self, query: Query) -> Lexicon:
        """Return the tenant's dictionary. An index can be searched without it, while it is not known."""
        try:
            return self._lexicons.get(query.tenant_id, query.namespaces)
        except Unavailable:
            if self.local is None:
                raise
            return Lexicon()


def _key(query: Query) -> _QueryKey:
    return query.tenant_id, query.query_id, query.query_text


def _clause(query: Query, standing: IndexAtRevision | None) -> Clause | None:
    """Return what fields have to be like in an index. What has no terms is judged where texts are read, and FULLTEXT answers
    instead while MySQL is there."""
    if standing is None:
        return None
    clause = clause_of(query.filters)
    return EVERYTHING if clause is None and not standing.is_current else clause


def _age(query: Query, standing: IndexAtRevision) -> dict[str, Any]:
    """Report how old an index is that could not be compared with MySQL, and which namespaces it does not have."""
    if standing.is_current:
        return {}
    told: dict[str, Any] = {"age_s": round(standing.age_s(datetime.now(UTC)), 3)}
    missing = [namespace for namespace in query.namespaces if namespace not in standing.states]
    if missing:
        detail = f"this host's index does not have {', '.join(missing)}, or there is no such namespace"
        told["lost"] = {"code": "namespace_not_indexed", "detail": detail}
    return told


def _words(statistics: Statistics, query: Query, lexicon: Lexicon) -> _Words:
    asked = read(query.query_text, lexicon)
    tokens = _tokens(asked.terms, query.tenant_id, query.namespaces)
    sizes, found = statistics.of_query(query.namespaces, _of_all(tokens))
    asked, tokens, frequency = _respelled(
        asked, tokens, _counted(tokens, found), query, lambda some: statistics.frequencies(query.namespaces, some)
    )
    return _weighed(asked, tokens, frequency, list(sizes.values()), lags=any(size.lags for size in sizes.values()))


def _words_of_index(standing: IndexAtRevision, query: Query, lexicon: Lexicon) -> _Words:
    """The same from this host's index, which never lags; what changed after its revision is not counted."""
    asked = read(query.query_text, lexicon)
    tokens = _tokens(asked.terms, query.tenant_id, list(standing.states))
    frequencies = standing.view.frequencies
    frequency = _counted(tokens, frequencies(_of_all(tokens)))
    asked, tokens, frequency = _respelled(asked, tokens, frequency, query, frequencies)
    return _weighed(asked, tokens, frequency, list(standing.states.values()), standing=standing)


def _weighed(
    asked: KeywordQuery,
    tokens: dict[Namespace, dict[str, str]],
    frequency: dict[str, int],
    sizes: Sequence[NamespaceState | NamespaceStatistics],
    *,
    lags: bool = False,
    standing: IndexAtRevision | None = None,
) -> _Words:
    if not lags and not (standing and standing.changed):  # else some chunks are not counted yet
        asked = asked.held(frequency)
    collection = Collection(
        chunk_count=sum(size.chunk_count for size in sizes),
        term_count=sum(size.term_count for size in sizes),
        chunk_frequency=frequency,
    )
    return _Words(
        asked=asked,
        tokens=tokens,
        frequency=frequency,
        weighed=weigh(asked, collection),
        chunk_count=collection.chunk_count,
        lags=lags,
        standing=standing,
    )


def _proposed(
    connection: Callable[[], Connection], query: Query, standing: IndexAtRevision, wanted: Wanted, pool: int
) -> list[TermsRow]:
    """The best chunks of this host's index, and those of documents that changed since, from MySQL."""
    limit = max(_LEAST_PROPOSED, int(_PROPOSED_PER_PLACE * pool))
    rows = standing.view.search(wanted, limit=limit)
    tokens = [token.encode() for group in wanted.groups for token in group]
    for namespace in {namespace for namespace, _ in standing.changed}:
        ids = [document_id for of, document_id in standing.changed if of == namespace]
        index = KeywordIndex(connection(), query.tenant_id)
        changed = index.shown_of(namespace, ids, filters=query.filters, limit=_MOST_CHANGED)
        rows += (row for row in changed if any(token in row.terms for token in tokens))
    return rows


def _rows_of(
    connection: Callable[[], Connection],
    query: Query,
    words: _Words,
    standing: IndexAtRevision,
    chunk_ids: Sequence[ChunkId],
) -> list[TermsRow]:
    """Given chunks out of this host's index; of MySQL those that it does not have, and those of documents that changed
    after its revision, since an edited chunk keeps its id."""
    rows = _rows_of_index(words, standing, chunk_ids)
    found = {row.chunk_id for row in rows}
    others = [chunk_id for chunk_id in chunk_ids if chunk_id not in found] if standing.is_current else []
    return rows + (KeywordIndex(connection(), query.tenant_id).rows(others) if others else [])


def _rows_of_index(words: _Words, standing: IndexAtRevision, chunk_ids: Sequence[ChunkId]) -> list[TermsRow]:
    """Those of these chunks that this host's index has and that were not changed since; each is read once a query."""
    unread = [chunk_id for chunk_id in chunk_ids if chunk_id not in words.rows]
    words.rows.update((row.chunk_id, row) for row in standing.view.rows(unread, without=standing.changed))
    return [words.rows[chunk_id] for chunk_id in chunk_ids if chunk_id in words.rows]


def _tokens(
    terms: Sequence[str], tenant_id: TenantId, namespaces: Iterable[Namespace]
) -> dict[Namespace, dict[str, str]]:
    scopes = {namespace: Scope(tenant_id=tenant_id, namespace=namespace) for namespace in namespaces}
    return {
        namespace: dict(zip(terms, tokenizer_of(scope).tokens(terms), strict=True))
        for namespace, scope in scopes.items()
    }


def _of_all(tokens: Mapping[Namespace, Mapping[str, str]]) -> list[str]:
    return [token for of_one in tokens.values() for token in of_one.values()]


def _respelled(
    asked: KeywordQuery,
    tokens: dict[Namespace, dict[str, str]],
    frequency: dict[str, int],
    query: Query,
    count: Callable[[list[str]], Mapping[str, int]],
) -> tuple[KeywordQuery, dict[Namespace, dict[str, str]], dict[str, int]]:
    """Add to words that no chunk holds the spellings one typing error away that some do. ``count``: in how many
    chunks each token occurs."""
    bound = _MOST_SPELLINGS // max(1, len(tokens))
    unknown = (
        unit.ways[0] for unit in asked.units if not any(frequency.get(term) for way in unit.ways for term in way)
    )
    near = {way[0]: some for way in unknown if len(way) == 1 and (some := near_spellings(way[0]))}
    others = list(dict.fromkeys(other for some in near.values() for other in some))[:bound]
    if not others:
        return asked, tokens, frequency
    written = _tokens(others, query.tenant_id, tokens)
    held = _counted(written, count(_of_all(written)))
    asked = asked.respelled({term: [other for other in some if held.get(other)] for term, some in near.items()})
    return asked, _tokens(asked.terms, query.tenant_id, tokens), held | frequency


def _counted(tokens: Mapping[Namespace, Mapping[str, str]], found: Mapping[str, int]) -> dict[str, int]:
    """In how many chunks each term occurs that any does, by the counts of tokens."""
    frequency: defaultdict[str, int] = defaultdict(int)
    for of_one in tokens.values():
        for term, written in of_one.items():
            frequency[term] += found.get(written, 0)
    return {term: count for term, count in frequency.items() if count}


def _documents_rows(
    connection: Callable[[], Connection], rule: Rule, query: Query, standing: IndexAtRevision | None
) -> list[TermsRow]:
    document = (Namespace(rule.namespace), DocumentId(rule.document_id))
    if standing is not None and not standing.is_current:
        clause = _clause(query, standing) or EVERYTHING
        return [entry.row for entry in standing.view.documents([document], clause, limit=_CHUNKS_PER_RULE)]
    return KeywordIndex(connection(), query.tenant_id).of_documents(
        [document], filters=query.filters, limit=_CHUNKS_PER_RULE
    )


def _apply(ruled: Sequence[tuple[Rule, Sequence[TermsRow]]], scores: dict[ChunkId, float], *, bound: float) -> None:
    """A rule's document scores ``boost`` times higher, and its best chunk at least half as many times what the best of
    all had; nothing scores above the bound."""
    best_score = max(scores.values(), default=0.0)
    for rule, rows in ruled:
        for row in rows:
            scores[row.chunk_id] = min(bound, scores[row.chunk_id] * rule.boost)
        if rows:
            best = max(rows, key=lambda row: scores[row.chunk_id]).chunk_id
            scores[best] = max(scores[best], min(bound, rule.boost / 2 * best_score))
