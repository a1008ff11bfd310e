"""Recall by words: BM25 over the chunks that this host's keyword index proposes, or FULLTEXT without an index."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Concatenate, ParamSpec, TypeVar

import structlog
from sqlalchemy import Connection, Engine

from chordwise.contract.dictionary import RuleOut
from pipeline.caches import RecentValues, RefreshingValue
from pipeline.channels.channel import Loss
from pipeline.channels.local_indexes import HostIndex, LocalIndexes
from pipeline.database.unit_of_work import read_soon, reading_if_asked
from pipeline.errors import PipelineError, Unavailable
from pipeline.filters.used_fields import Counts
from pipeline.keyword.dictionary import EVERY_NAMESPACE, Lexicon
from pipeline.keyword.dictionary_store import Dictionaries
from pipeline.keyword.fulltext_store import KeywordIndex
from pipeline.keyword.matching import FieldWeights
from pipeline.keyword.query_words import QueryWords, TermsRow, WordIndex, words_of
from pipeline.keyword.terms import terms_in_order
from pipeline.keyword_index.host_words import HostWords, IndexAtRevision
from pipeline.keyword_index.index_faults import IndexDamaged
from pipeline.outages import replace_in_outage
from pipeline.query.channel_options import KeywordOptions, options_of
from pipeline.query.request import Query, Recalled
from pipeline.ranking.fusion import Terms, terms_of
from pipeline.records import ChannelName, ChunkId, DocumentId, Namespace, QueryId, TenantId

log = structlog.get_logger(__name__)

_QueryKey = tuple[str, str, str]
P = ParamSpec("P")
T = TypeVar("T")

_CHUNKS_PER_RULE = 5
_MOST_KNOWN = 32  # queries; each may hold open files of the index that were merged away since, and some 200 rows
_MOST_ROWS = 16_000  # each is there twice, by chunk id and by address; 8,000 rows of 250 words take some 28 MB
_MOST_WITHOUT_DICTIONARY = 256  # queries
_DICTIONARY_FRESH_S = 3.0
_MOST_DICTIONARIES = 256
_PATIENCE_S, _FIRST_S = 0.25, 0.5  # for a known dictionary, and for one that was never read
_NO_DICTIONARY = Loss(
    code="dictionary_not_read",
    detail="the dictionary was not read in time, so its synonyms, phrases, stop words and rules were not applied",
)


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
class _Engine:
    """The engine that a query uses from its beginning: this host's ``index``, or FULLTEXT without one. ``read_rows``: the
    rows of the index that the query has read, or queries before it at the same revision; by chunk id and by address."""

    tenant_id: TenantId
    index: IndexAtRevision | None
    read_rows: dict[object, TermsRow] = field(default_factory=dict)

    def following(self, last: _Engine) -> _Engine:
        """Return it with the rows that the last query's engine has read, if they are the same and not too many."""
        index, other = self.index, last.index
        same = index is not None and other is not None and index.view is other.view and index.changed == other.changed
        return replace(self, read_rows=last.read_rows) if same and len(last.read_rows) < _MOST_ROWS else self

    def on(self, connection: Callable[[], Connection]) -> WordIndex:
        """Return it with a connection, which the index takes only for what it lacks."""
        if self.index is None:
            return KeywordIndex(connection(), self.tenant_id)
        return HostWords(self.index, lambda: KeywordIndex(connection(), self.tenant_id), self.read_rows)


@dataclass(frozen=True, slots=True)
class KeywordChannel:
    """The channel over the keyword index in MySQL, and this host's in ``local``; None for the engine ``mysql``."""

    mysql: Engine
    local: LocalIndexes | None = None
    name: ChannelName = ChannelName.KEYWORD
    clock: Callable[[], float] = time.monotonic
    _known: RecentValues[_QueryKey, tuple[_Engine, QueryWords]] = field(
        default_factory=lambda: RecentValues(_MOST_KNOWN)
    )
    _without_dictionary: RecentValues[tuple[str, str], bool] = field(
        default_factory=lambda: RecentValues(_MOST_WITHOUT_DICTIONARY)
    )
    _last: list[_Engine] = field(default_factory=lambda: [_Engine(TenantId(""), None)])  # the one that began last
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
            engine, words = self._begun(connection, query)
            proposed = engine.on(connection).candidates(words, filters=query.filters, pool=pool, caps=query.caps)
            rules = [rule for rule in words.keyword_query.rules if rule.namespace in query.namespaces]
            ruled = [(rule, _documents_rows(engine.on(connection), rule, query)) for rule in rules]
        scores = words.score(proposed.rows, fields)
        scores |= words.score([row for _, more in ruled for row in more if row.chunk_id not in scores], fields)
        _apply(ruled, scores, bound=words.weighed.bound)
        best = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:pool]
        guard = {"method": proposed.method, "rows": len(proposed.rows), "may_be_short": proposed.may_be_short}
        return Recalled(
            chunk_ids=tuple(chunk_id for chunk_id, _ in best),
            scores=tuple(scored for _, scored in best),
            upper_bound=words.weighed.bound,
            zero=0.0,
            guard=guard | _age(engine.index) | self._losses(query, engine.index),
        )

    @_without_damage
    def score(self, query: Query, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, float]:
        """Return the BM25 score of chunks that another channel found; 0 if no word of the query occurs."""
        if not chunk_ids:
            return {}
        with reading_if_asked(self.mysql) as connection:
            engine, words = self._begun(connection, query)
            rows = engine.on(connection).rows(chunk_ids)
        return words.score(rows, self._fields(query))

    def recall_each(self, queries: Sequence[Query]) -> dict[QueryId, Recalled]:
        """Return `recall` of many queries, one after the other."""
        return {query.query_id: self.recall(query) for query in queries}

    def score_each(self, asked: Sequence[tuple[Query, Sequence[ChunkId]]]) -> dict[QueryId, dict[ChunkId, float]]:
        """Return `score` of many queries, each with its chunks; it has most of their rows at hand."""
        return {query.query_id: self.score(query, chunk_ids) for query, chunk_ids in asked}

    @_without_damage
    def foreign(self, query: Query, chunk_ids: Sequence[ChunkId]) -> frozenset[ChunkId]:
        """Return those of these chunks that hold no word of the query at all, words of grammar included."""
        with reading_if_asked(self.mysql) as connection:
            engine, words = self._begun(connection, query)
            rows = engine.on(connection).rows(chunk_ids)
        return words.unshared(rows, terms_in_order(query.query_text), tenant_id=query.tenant_id)

    @_without_damage
    def coverage(self, query: Query, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, float]:
        """Return the share of the query that each of these chunks covers; nothing without words, or with a rule."""
        with reading_if_asked(self.mysql) as connection:
            engine, words = self._begun(connection, query)
            if not words.keyword_query.terms or any(r.namespace in query.namespaces for r in words.keyword_query.rules):
                return {}
            rows = engine.on(connection).rows(chunk_ids)
        return words.coverage(rows, self._fields(query))

    @_without_damage
    def indexed(self, query: Query, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, Terms] | None:
        """Return the tokens of these chunks; None unless this host's index has all of them at the query's revision."""
        if self.local is None:
            return None
        with reading_if_asked(self.mysql) as connection:
            engine, _ = self._begun(connection, query)
            rows = None if engine.index is None else engine.on(connection).own_rows(chunk_ids)
        if engine.index is None or rows is None:
            return None
        terms = {row.chunk_id: terms_of(row.terms) for row in rows}
        return terms if len(terms) == len(set(chunk_ids)) or not engine.index.is_current else None

    @_without_damage
    def count_values(
        self, query: Query, chunk_ids: Sequence[ChunkId], fields: Sequence[str]
    ) -> tuple[int, Sequence[tuple[Counts, int]], Sequence[ChunkId]] | None:
        """Count the values of fields among the chunks that hold a word of the query, or are among these; see `WordIndex`."""
        with reading_if_asked(self.mysql) as connection:
            engine, words = self._begun(connection, query)
            return engine.on(connection).count_values(words, chunk_ids, filters=query.filters, fields=fields)

    def terms(self, query: Query) -> tuple[str, ...]:
        """Return the query's words, their synonyms and corrected spellings, without stop words."""
        with reading_if_asked(self.mysql) as connection:
            return self._begun(connection, query)[1].keyword_query.terms

    def lost(self, query: Query) -> Loss | None:
        """Return the loss of the dictionary if this process could not read it for the query or one of its wordings."""
        return _NO_DICTIONARY if _id(query) in self._without_dictionary else None

    def distrust(self, query: Query) -> None:
        """Use MySQL instead of this query's index until that is rebuilt."""
        self._host.distrust(query)
        self._known.forget(_key(query))

    def _fields(self, query: Query) -> FieldWeights:
        return options_of(KeywordOptions, query.plan.channels.get(self.name)).fields

    def _begun(self, connection: Callable[[], Connection], query: Query) -> tuple[_Engine, QueryWords]:
        """Return the query's engine and its words there, chosen once although the channel is called several times."""

        def begin() -> tuple[_Engine, QueryWords]:
            lexicon, engine = self._lexicon(query), _Engine(query.tenant_id, self._host.current_or_last(query))
            engine = engine.following(self._last[0])
            self._last[0] = engine
            tenant_id, namespaces, text = query.tenant_id, query.namespaces, query.query_text
            return engine, words_of(engine.on(connection), text, lexicon, tenant_id=tenant_id, namespaces=namespaces)

        return self._known.get(_key(query), begin)

    def _lexicon(self, query: Query) -> Lexicon:
        """Return the tenant's dictionary; an empty one, which is a loss, if it cannot be read and an index is
        searched."""

        def none(error: Unavailable) -> Lexicon | None:
            if self.local is None:
                return None
            log.warning("dictionary_not_read", tenant_id=query.tenant_id, query_id=query.query_id, code=error.code)
            self._without_dictionary.put(_id(query), True)
            return Lexicon()

        return replace_in_outage(lambda: self._lexicons.get(query.tenant_id, query.namespaces), none)

    def _losses(self, query: Query, host_index: IndexAtRevision | None) -> dict[str, Loss]:
        """Return the losses of the dictionary and of namespaces as one, for the guard; nothing without any."""
        losses = [loss for loss in (_missing_namespaces(query, host_index), self.lost(query)) if loss is not None]
        if not losses:
            return {}
        return {"lost": Loss(code=losses[0]["code"], detail="; ".join(loss["detail"] for loss in losses))}


def _key(query: Query) -> _QueryKey:
    return query.tenant_id, query.query_id, query.query_text


def _id(query: Query) -> tuple[str, str]:
    return query.tenant_id, query.query_id


def _age(index: IndexAtRevision | None) -> dict[str, float]:
    """Report the age of an index that could not be compared with MySQL."""
    return {} if index is None or index.is_current else {"age_s": round(index.age_s(datetime.now(UTC)), 3)}


def _missing_namespaces(query: Query, host_index: IndexAtRevision | None) -> Loss | None:
    """Return the loss of the namespaces that an index lacks which could not be compared with MySQL."""
    if host_index is None or host_index.is_current:
        return None
    missing = [namespace for namespace in query.namespaces if namespace not in host_index.states]
    detail = f"this host's index does not have {', '.join(missing)}, or there is no such namespace"
    return Loss(code="namespace_not_indexed", detail=detail) if missing else None


def _documents_rows(engine: WordIndex, rule: RuleOut, query: Query) -> list[TermsRow]:
    document = Namespace(rule.namespace), [DocumentId(rule.document_id)]
    return engine.shown_of(*document, filters=query.filters, limit=_CHUNKS_PER_RULE)


def _apply(ruled: Sequence[tuple[RuleOut, Sequence[TermsRow]]], scores: dict[ChunkId, float], *, bound: float) -> None:
    """Raise the documents of rules ``boost`` times, and their best chunk to at least half as often the best score."""
    best_score = max(scores.values(), default=0.0)
    for rule, rows in ruled:
        for row in rows:
            scores[row.chunk_id] = min(bound, scores[row.chunk_id] * rule.boost)
        if rows:
            best = max(rows, key=lambda row: scores[row.chunk_id]).chunk_id
            scores[best] = max(scores[best], min(bound, rule.boost / 2 * best_score))


_Dictionary = tuple[tuple[tuple[str, int], ...], Lexicon]  # its versions, and what they say together
_DictionaryKey = tuple[TenantId, tuple[Namespace, ...]]


class Lexicons:
    """At most 256 dictionaries, by tenant and namespaces. A changed dictionary takes effect after three seconds; an
    unchanged one is not analysed again. While MySQL is unavailable the last one is used. Thread-safe."""

    def __init__(self, mysql: Engine, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._mysql = mysql
        self._clock = clock
        self._dictionaries: RecentValues[_DictionaryKey, RefreshingValue[_Dictionary]] = RecentValues(
            _MOST_DICTIONARIES
        )

    def get(self, tenant_id: TenantId, namespaces: Sequence[Namespace]) -> Lexicon:
        """Return the tenant's dictionary for these namespaces together. Raises Unavailable if it was never read."""
        key = (tenant_id, tuple(sorted(namespaces)))
        return self._dictionaries.get(key, lambda: self._dictionary(key)).get()[1]

    def _dictionary(self, key: _DictionaryKey) -> RefreshingValue[_Dictionary]:
        def read() -> _Dictionary:
            last = entry.last
            seconds = _FIRST_S if last is None else _PATIENCE_S
            return read_soon(self._mysql, lambda connection: _read_dictionary(connection, key, last), seconds=seconds)

        def report(error: PipelineError) -> None:
            log.info("dictionary_not_read", tenant_id=key[0], code=error.code)

        entry: RefreshingValue[_Dictionary] = RefreshingValue(
            read, fresh_s=_DICTIONARY_FRESH_S, on_failure=report, clock=self._clock
        )
        return entry


def _read_dictionary(connection: Connection, key: _DictionaryKey, last: _Dictionary | None) -> _Dictionary:
    """Read the versions, and the dictionary only if they differ from the last ones."""
    tenant_id, namespaces = key
    store, wanted = Dictionaries(connection, tenant_id), [EVERY_NAMESPACE, *namespaces]
    versions = tuple(sorted(store.versions(wanted).items()))
    if last is not None and last[0] == versions:
        return last
    lexicon = Lexicon.of(store.load(wanted).values()) if versions else Lexicon()
    return versions, lexicon
