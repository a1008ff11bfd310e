"""Search one tenant's tantivy index at one of its commits, and read the documents of chunks and namespaces back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import tantivy

from pipeline.documents.chunk_store import StoredChunk, stored_chunk
from pipeline.filters.index_filters import EVERYTHING, Between, Clause, Either, Having, Never, Ordered
from pipeline.keyword.bm25 import K1
from pipeline.keyword.fulltext_store import TermsRow, terms_row
from pipeline.keyword_index.index_documents import (
    CHUNK_KEY,
    FIELD_KEY,
    FIELDS,
    ID_HIGH,
    ID_LOW,
    KEYS,
    METADATA_KEY,
    NAMESPACE_KEY,
    ROW,
    SORTABLE,
    STATE_KEY,
    TERMS,
    TEXT,
    chunk_id_bytes,
    document_key,
    key,
)
from pipeline.keyword_index.index_faults import readable
from pipeline.keyword_index.indexed_chunk_store import NamespaceState
from pipeline.records import ChunkId, DocumentId, Namespace

_MOST_COUNTED = 50_000  # chunks; counting them takes some 0.2 ms


class IndexEntry(NamedTuple):
    """A chunk in the index. ``text`` and ``fields`` are decoded by `stored`."""

    row: TermsRow
    text: str
    fields: str

    def stored(self) -> StoredChunk:
        """Return the chunk as MySQL had it."""
        return stored_chunk(self.text, self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSearch:
    """A search: groups of tokens with the worth of each, in the unit of BM25's ``(k1 + 1) * idf``; the best token of a
    group counts. ``clause``: conditions on the fields. ``without``: documents that are left out."""

    groups: Sequence[Mapping[str, float]]
    clause: Clause = EVERYTHING
    without: Sequence[tuple[Namespace, DocumentId]] = ()


class IndexView:
    """A tenant's index at one commit. Its methods raise IndexDamaged."""

    def __init__(self, index: tantivy.Index, folder: Path) -> None:
        self._index = index
        self._searcher = index.searcher()
        self._schema = index.schema
        self._written, _ = sizes_on_disk(folder)
        self._frequencies: dict[str, int] = {}
        self._states: dict[Namespace, NamespaceState | None] = {}

    @readable
    def state(self, namespace: Namespace) -> NamespaceState | None:
        """Return the state of a namespace, None if the index does not have it."""
        if namespace not in self._states:
            hits = self._searcher.search(self._having(key(STATE_KEY, namespace)), limit=1, count=False).hits
            self._states[namespace] = self._state_at(hits[0][1]) if hits else None
        return self._states[namespace]

    @readable
    def states(self) -> dict[Namespace, NamespaceState]:
        """Return the state of every namespace of the index."""
        hits = self._searcher.search(self._having(STATE_KEY), limit=max(1, self._searcher.num_docs), count=False).hits
        return {state.namespace: state for state in (self._state_at(address) for _, address in hits)}

    @readable
    def frequencies(self, tokens: Sequence[str]) -> dict[str, int]:
        """Return the number of chunks that hold each token; a token in none is left out, and not cached: a misspelt
        word has hundreds. Tantivy's own figure includes deleted chunks that are not merged away yet, so with any of
        these the chunks are counted; a very frequent token's figure is reduced by the share of deleted chunks."""
        cached, written_frequency = self._frequencies, self._searcher.doc_freq
        for token in tokens:
            if token not in cached and (frequency := int(written_frequency(TERMS, token))):
                cached[token] = self._counted(token, frequency)
        return {token: cached[token] for token in tokens if token in cached}

    def _counted(self, token: str, frequency: int) -> int:
        current = self._searcher.num_docs
        if self._written <= current:
            return frequency
        if frequency > _MOST_COUNTED:
            return frequency * current // self._written
        query = tantivy.Query.term_query(self._schema, TERMS, token, "freq")
        result: Any = self._searcher.search(query, limit=1, count=True)
        return int(result.count)

    @readable
    def search(self, wanted: IndexSearch, *, limit: int) -> list[TermsRow]:
        """Return the ``limit`` best chunks that hold a token and meet the clause, best first by tantivy's BM25, which
        rounds lengths and uses the tenant's mean length; the caller scores them again."""
        groups = [self._group(group) for group in wanted.groups if group]
        if not groups:
            return []
        parts = [(tantivy.Occur.Must, _any(groups))]
        if wanted.clause != EVERYTHING:
            parts.append((tantivy.Occur.Must, tantivy.Query.const_score_query(self._query(wanted.clause), 0.0)))
        parts += self._unless(wanted.without)
        return [self._row(address) for address in self._addresses(parts, limit=limit)]

    @readable
    def rows(
        self, chunk_ids: Sequence[ChunkId], *, without: Sequence[tuple[Namespace, DocumentId]] = ()
    ) -> list[TermsRow]:
        """Return the rows of these chunks that the index has, ``without`` these documents' chunks."""
        return [self._row(address) for address in self._of_chunks(chunk_ids, without)]

    @readable
    def chunks(self, chunk_ids: Sequence[ChunkId]) -> list[IndexEntry]:
        """Return these chunks, as far as the index has them."""
        return [self._entry(address) for address in self._of_chunks(chunk_ids)]

    @readable
    def documents(
        self, documents: Sequence[tuple[Namespace, DocumentId]], clause: Clause, *, limit: int
    ) -> list[IndexEntry]:
        """Return up to ``limit`` chunks of these documents that meet the clause."""
        keys = self._any_of([document_key(*document) for document in documents])
        parts = [(tantivy.Occur.Must, keys), (tantivy.Occur.Must, self._query(clause))]
        return [self._entry(address) for address in self._addresses(parts, limit=limit)]

    @readable
    def passing(
        self,
        namespaces: Sequence[Namespace],
        clause: Clause,
        *,
        limit: int,
        without: Sequence[tuple[Namespace, DocumentId]] = (),
    ) -> list[bytes] | None:
        """Return the ids (16 bytes each) of all chunks of these namespaces that meet the clause, ``without`` those of these
        documents; None if there are more than ``limit``. 20,000 take 5 ms."""
        in_namespaces = self._any_of([key(NAMESPACE_KEY, namespace) for namespace in namespaces])
        meeting = tantivy.Query.const_score_query(self._query(clause), 0.0)
        parts = [(tantivy.Occur.Must, in_namespaces), (tantivy.Occur.Must, meeting), *self._unless(without)]
        addresses = self._addresses(
            parts, limit=limit + len(namespaces) + 1
        )  # the states of namespaces may be among them
        highs, lows = (self._integers(name, addresses) for name in (ID_HIGH, ID_LOW))
        chunk_ids = chunk_id_bytes(highs, lows)
        return chunk_ids if len(chunk_ids) <= limit else None

    def _integers(self, column: str, addresses: list[tantivy.DocAddress]) -> list[int | None]:
        values: list[Any] = self._searcher.fast_field_values(column, addresses)
        return values

    def _of_chunks(
        self, chunk_ids: Sequence[ChunkId], without: Sequence[tuple[Namespace, DocumentId]] = ()
    ) -> list[tantivy.DocAddress]:
        if not chunk_ids:
            return []
        keys = [key(CHUNK_KEY, chunk_id) for chunk_id in chunk_ids]
        return self._addresses([(tantivy.Occur.Must, self._any_of(keys)), *self._unless(without)], limit=len(keys))

    def _addresses(self, parts: list[tuple[tantivy.Occur, tantivy.Query]], *, limit: int) -> list[tantivy.DocAddress]:
        hits = self._searcher.search(tantivy.Query.boolean_query(parts), limit=limit, count=False).hits
        return [address for _, address in hits]

    def _unless(self, documents: Sequence[tuple[Namespace, DocumentId]]) -> list[tuple[tantivy.Occur, tantivy.Query]]:
        keys = [document_key(*document) for document in documents]
        return [(tantivy.Occur.MustNot, self._any_of(keys))] if keys else []

    def _any_of(self, keys: Sequence[str]) -> tantivy.Query:
        """Return a query for any of these keys. It takes a fifth of the time of tantivy's query for a set of terms."""
        return tantivy.Query.const_score_query(_any([self._having(key) for key in keys]), 0.0)

    def _group(self, group: Mapping[str, float]) -> tantivy.Query:
        """Return a query for one group of tokens, boosted from tantivy's weights to the caller's worths."""
        boosted = [
            tantivy.Query.boost_query(
                tantivy.Query.term_query(self._schema, TERMS, token, "freq"), worth / ((K1 + 1) * self._idf(token))
            )
            for token, worth in group.items()
        ]
        return boosted[0] if len(boosted) == 1 else tantivy.Query.disjunction_max_query(boosted)

    def _idf(self, token: str) -> float:
        """Return the idf as tantivy computes it: from all documents written, deleted or not."""
        frequency = min(self._written, int(self._searcher.doc_freq(TERMS, token)))
        return math.log1p((self._written - frequency + 0.5) / (frequency + 0.5))

    def _query(self, clause: Clause) -> tantivy.Query:
        if isinstance(clause, Having):
            return self._having(key(FIELD_KEY, clause.term))
        if isinstance(clause, Between):
            return tantivy.Query.range_query(
                self._schema, clause.field, tantivy.FieldType.Integer, clause.least, clause.most
            )
        if isinstance(clause, Ordered):
            # The Python package has no range query for fields of JSON, its parser has; keys and values are hexadecimal.
            start, end = "[{"[clause.excludes_least], "]}"[clause.excludes_most]
            field = f"{SORTABLE}.{key(METADATA_KEY, clause.key)}"
            return self._index.parse_query(f"{field}:{start}{clause.least} TO {clause.most}{end}", [KEYS])
        if isinstance(clause, Never):
            parts = [(tantivy.Occur.Must, tantivy.Query.all_query()), (tantivy.Occur.MustNot, self._query(clause.part))]
            return tantivy.Query.boolean_query(parts)
        if isinstance(clause, Either):
            return _any([self._query(part) for part in clause.parts])
        if not clause.parts:
            return tantivy.Query.all_query()
        return tantivy.Query.boolean_query([(tantivy.Occur.Must, self._query(part)) for part in clause.parts])

    def _having(self, key: str) -> tantivy.Query:
        return tantivy.Query.term_query(self._schema, KEYS, key, "basic")

    def _entry(self, address: tantivy.DocAddress) -> IndexEntry:
        row, body, fields = self._stored(address, ROW, TEXT, FIELDS)
        return IndexEntry(terms_row(row.encode()), body, fields)

    def _row(self, address: tantivy.DocAddress) -> TermsRow:
        return terms_row(self._stored(address, ROW)[0].encode())

    def _stored(self, address: tantivy.DocAddress, *names: str) -> list[str]:
        document: Any = self._searcher.doc(address)
        return [document.get_first(name) for name in names]

    def _state_at(self, address: tantivy.DocAddress) -> NamespaceState:
        [fields] = self._stored(address, FIELDS)
        state = orjson.loads(fields)
        moments = {name: state[name] and datetime.fromisoformat(state[name]) for name in ("revised_at", "created_at")}
        return NamespaceState(**state | moments)


def sizes_on_disk(folder: Path) -> tuple[int, int]:
    """Return how many tantivy documents are on disk, and how many of them are deleted, at the last commit."""
    segments = orjson.loads((folder / "meta.json").read_bytes())["segments"]
    deleted = sum((segment["deletes"] or {}).get("num_deleted_docs", 0) for segment in segments)
    return sum(segment["max_doc"] for segment in segments), deleted


def _any(queries: Sequence[Any]) -> tantivy.Query:
    if not queries:
        return tantivy.Query.empty_query()
    return tantivy.Query.boolean_query([(tantivy.Occur.Should, query) for query in queries])
