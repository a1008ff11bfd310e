"""Recall by words: BM25 over the chunks that this host's keyword index proposes, or FULLTEXT without an index."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine

from pipeline.caches import RecentValues
from pipeline.channels.channel import Recalled
from pipeline.channels.dictionary_cache import Lexicons
from pipeline.channels.host_index import HostIndex
from pipeline.channels.local_indexes import IndexAtRevision, LocalIndexes
from pipeline.channels.query_words import NamespaceRows, QueryWords, words_of_index, words_of_mysql
from pipeline.database.unit_of_work import reading_if_asked
from pipeline.errors import Unavailable
from pipeline.filters.index_filters import EVERYTHING, Clause, clause_of
from pipeline.keyword.dictionary import Lexicon, Rule
from pipeline.keyword.fulltext_store import KeywordIndex, TermsRow
from pipeline.keyword.matching import FieldWeights
from pipeline.keyword.statistics_store import Statistics
from pipeline.keyword_index.index_faults import IndexDamaged
from pipeline.keyword_index.index_search import IndexSearch
from pipeline.query.channel_options import KeywordOptions, options_of
from pipeline.query.request import Query
from pipeline.ranking.neighbours import Terms, terms_of
from pipeline.records import ChannelName, ChunkId, DocumentId, Namespace

_QueryKey = tuple[str, str, str]
P = ParamSpec("P")
T = TypeVar("T")

_LEAST_CANDIDATES = 200
_CANDIDATES_PER_PLACE = 2
_CHUNKS_PER_RULE = 5
_MOST_KNOWN = 32  # queries; each may hold open files of the index that were merged away since, and some 200 rows
_LEAST_PROPOSED = 100  # by this host's index
_PROPOSED_PER_PLACE = 1.25  # its order differs from BM25's only by rounded lengths
_MOST_CHANGED = 1_000  # chunks of documents that changed after the index's revision


def _without_damage(method: Callable[Concatenate[KeywordChannel, Query, P], T]) -> Callable[..., T]:
    """Repeat the call with MySQL if this host's index turns out to be damaged."""

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
    """The channel over the keyword index in MySQL, and this host's in ``local``; None for the engine ``mysql``."""

    mysql: Engine
    local: LocalIndexes | None = None
    name: ChannelName = ChannelName.KEYWORD
    clock: Callable[[], float] = time.monotonic
    _known: RecentValues[_QueryKey, QueryWords] = field(default_factory=lambda: RecentValues(_MOST_KNOWN))
    _lexicons: Lexicons = field(init=False)
    _host: HostIndex = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_lexicons", Lexicons(self.mysql, clock=self.clock))
        object.__setattr__(self, "_host", HostIndex(self.mysql, self.local))

    @_without_damage
    def recall(self, query: Query) -> Recalled:
        """Return the best chunks by BM25 among those that hold any of the query's words, and those that a rule adds."""
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
        """Return the BM25 score of chunks that another channel found; 0 if no word of the query occurs."""
        if not chunk_ids:
            return {}
        with reading_if_asked(self.mysql) as connection:
            words = self._words(connection, query)
            blocks = self._blocks(connection, query, words, chunk_ids)
        return words.score(blocks, self._fields(query))

    @_without_damage
    def coverage(self, query: Query, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, float]:
        """Return the share of the query that each of these chunks covers; see `keyword.scoring.coverage` and
        `ranking.coverage`. Empty for a query without words, and if a rule of the dictionary raises a document above its
        words."""
        with reading_if_asked(self.mysql) as connection:
            words = self._words(connection, query)
            ruled = any(rule.namespace in query.namespaces for rule in words.asked.rules)
            untold = ruled or not words.asked.terms
            blocks = [] if untold else self._blocks(connection, query, words, chunk_ids)
        return words.coverage(blocks, self._fields(query))

    @_without_damage
    def indexed(self, query: Query, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, Terms] | None:
        """Return the tokens of these chunks; None unless this host's index has all of them at the query's revision."""
        if self.local is None:
            return None
        with reading_if_asked(self.mysql) as connection:
            words = self._words(connection, query)
        if words.standing is None:
            return None
        terms = {row.chunk_id: terms_of(row.terms) for row in _rows_of_index(words, words.standing, chunk_ids)}
        return terms if len(terms) == len(set(chunk_ids)) or not words.standing.is_current else None

    def terms(self, query: Query) -> tuple[str, ...]:
        """Return the query's words, their synonyms and corrected spellings, without stop words."""
        with reading_if_asked(self.mysql) as connection:
            return self._words(connection, query).asked.terms

    def distrust(self, query: Query) -> None:
        """Use MySQL instead of this query's index until that is rebuilt."""
        self._host.distrust(query)
        self._known.forget(_key(query))

    def _fields(self, query: Query) -> FieldWeights:
        return options_of(KeywordOptions, query.plan.channels.get(self.name)).fields

    def _blocks(
        self, connection: Callable[[], Connection], query: Query, words: QueryWords, chunk_ids: Sequence[ChunkId]
    ) -> list[NamespaceRows]:
        """Return the rows of these chunks from this host's index, or from MySQL."""
        if words.standing is not None:
            return words.of_rows(_rows_of(connection, query, words, words.standing, chunk_ids))
        return words.of_rows(KeywordIndex(connection(), query.tenant_id).rows(chunk_ids))

    def _words(self, connection: Callable[[], Connection], query: Query) -> QueryWords:
        """Return the query's words with their statistics, computed once although the channel is called several times."""

        def make() -> QueryWords:
            lexicon, standing = self._lexicon(query), self._host.standing(query)
            if standing is not None:
                return words_of_index(standing, query, lexicon)
            return words_of_mysql(Statistics(connection(), query.tenant_id), query, lexicon)

        return self._known.get(_key(query), make)

    def _lexicon(self, query: Query) -> Lexicon:
        """Return the tenant's dictionary; an empty one if it cannot be read and an index is searched."""
        try:
            return self._lexicons.get(query.tenant_id, query.namespaces)
        except Unavailable:
            if self.local is None:
                raise
            return Lexicon()


def _key(query: Query) -> _QueryKey:
    return query.tenant_id, query.query_id, query.query_text


def _clause(query: Query, standing: IndexAtRevision | None) -> Clause | None:
    """Return the filters as a clause of the index; None if only FULLTEXT can apply them. While MySQL is unavailable,
    filters without terms are applied where texts are read."""
    if standing is None:
        return None
    clause = clause_of(query.filters)
    return EVERYTHING if clause is None and not standing.is_current else clause


def _age(query: Query, standing: IndexAtRevision) -> dict[str, Any]:
    """Report the age of an index that could not be compared with MySQL, and the namespaces that it lacks."""
    if standing.is_current:
        return {}
    guard: dict[str, Any] = {"age_s": round(standing.age_s(datetime.now(UTC)), 3)}
    missing = [namespace for namespace in query.namespaces if namespace not in standing.states]
    if missing:
        detail = f"this host's index does not have {', '.join(missing)}, or there is no such namespace"
        guard["lost"] = {"code": "namespace_not_indexed", "detail": detail}
    return guard


def _proposed(
    connection: Callable[[], Connection], query: Query, standing: IndexAtRevision, wanted: IndexSearch, pool: int
) -> list[TermsRow]:
    """Return the best rows of this host's index, and MySQL's rows of documents that changed since."""
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
    words: QueryWords,
    standing: IndexAtRevision,
    chunk_ids: Sequence[ChunkId],
) -> list[TermsRow]:
    """Return the rows of these chunks from this host's index; from MySQL those that it lacks, and those of documents
    that changed after its revision, since an edited chunk keeps its id."""
    rows = _rows_of_index(words, standing, chunk_ids)
    present = {row.chunk_id for row in rows}
    others = [chunk_id for chunk_id in chunk_ids if chunk_id not in present] if standing.is_current else []
    return rows + (KeywordIndex(connection(), query.tenant_id).rows(others) if others else [])


def _rows_of_index(words: QueryWords, standing: IndexAtRevision, chunk_ids: Sequence[ChunkId]) -> list[TermsRow]:
    """Return the rows of those chunks that this host's index has and that are unchanged since; each is read once per
    query."""
    unread = [chunk_id for chunk_id in chunk_ids if chunk_id not in words.rows]
    words.rows.update((row.chunk_id, row) for row in standing.view.rows(unread, without=standing.changed))
    return [words.rows[chunk_id] for chunk_id in chunk_ids if chunk_id in words.rows]


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
    """Raise the documents of rules: multiply their scores by ``boost``, and lift the best chunk to at least half as
    many times the best score of all; no score exceeds the bound."""
    best_score = max(scores.values(), default=0.0)
    for rule, rows in ruled:
        for row in rows:
            scores[row.chunk_id] = min(bound, scores[row.chunk_id] * rule.boost)
        if rows:
            best = max(rows, key=lambda row: scores[row.chunk_id]).chunk_id
            scores[best] = max(scores[best], min(bound, rule.boost / 2 * best_score))
