"""A tantivy index of one tenant's shown chunks in a folder of this host: a cache that may be deleted at any time.

Every chunk is one document of tantivy with its terms as in MySQL, its keys (the tokens of chunk, document, namespace
and field terms), and the fields needed to score and show it. Each namespace has one more document with its state: the
revision at which its chunks were read. Both change in one commit, so a reader sees a namespace at one revision.
"""

from __future__ import annotations

import hashlib
import math
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import tantivy

from pipeline.documents.chunk_store import StoredChunk, stored_chunk
from pipeline.filters.filter_terms import EVERYTHING, Between, Clause, Either, Having, Never
from pipeline.keyword.bm25 import K1
from pipeline.keyword.fulltext_store import TermsRow, terms_row
from pipeline.keyword_index.index_documents import (
    CHUNK_KEY,
    FIELD_KEY,
    FIELDS,
    FORMAT,
    ID_HIGH,
    ID_LOW,
    KEYS,
    NAMESPACE_KEY,
    ROW,
    STATE_KEY,
    TERMS,
    TEXT,
    chunk_document,
    chunk_id_bytes,
    document_key,
    key,
    make_empty,
    schema,
    state_document,
)
from pipeline.keyword_index.index_faults import IndexDamaged, readable, writing
from pipeline.keyword_index.indexed_chunk_store import IndexedChunk, NamespaceState
from pipeline.records import ChunkId, DocumentId, Namespace, TenantId

DAMAGED = "damaged"  # marks the folder of an index that must be rebuilt
_MOST_COUNTED = 50_000  # chunks; counting them takes some 0.2 ms
_WRITER_BYTES = 48_000_000  # tantivy's minimum is 15 MB a thread


class Entry(NamedTuple):
    """A chunk in the index. ``text`` and ``fields`` are decoded by `stored`."""

    row: TermsRow
    text: str
    fields: str

    def stored(self) -> StoredChunk:
        """Return the chunk as MySQL had it."""
        return stored_chunk(self.text, self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A search: groups of tokens with the worth of each, in the unit of BM25's ``(k1 + 1) * idf``; the best token of a
    group counts. ``clause``: conditions on the fields. ``without``: documents that are left out."""

    groups: Sequence[Mapping[str, float]]
    clause: Clause = EVERYTHING
    without: Sequence[tuple[Namespace, DocumentId]] = ()


def folder_of(root: Path, tenant_id: TenantId) -> Path:
    """Return the folder of a tenant's index, named by a hash so that every id makes a valid file name."""
    return root / f"format-{FORMAT}" / hashlib.blake2b(tenant_id.encode(), digest_size=16).hexdigest()


class View:
    """A tenant's index at one commit. Its methods raise IndexDamaged."""

    def __init__(self, index: tantivy.Index, folder: Path) -> None:
        self._searcher = index.searcher()
        self._schema = index.schema
        self._written, _ = _sizes(folder)
        self._frequencies: dict[str, int] = {}
        self._states: dict[Namespace, NamespaceState | None] = {}

    @readable
    def state(self, namespace: Namespace) -> NamespaceState | None:
        """Return the state of a namespace, None if the index does not have it."""
        if namespace not in self._states:
            found = self._searcher.search(self._having(key(STATE_KEY, namespace)), limit=1, count=False).hits
            self._states[namespace] = self._state_at(found[0][1]) if found else None
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
        known, held = self._frequencies, self._searcher.doc_freq
        for token in tokens:
            if token not in known and (frequency := int(held(TERMS, token))):
                known[token] = self._counted(token, frequency)
        return {token: known[token] for token in tokens if token in known}

    def _counted(self, token: str, frequency: int) -> int:
        every = self._searcher.num_docs
        if self._written <= every:
            return frequency
        if frequency > _MOST_COUNTED:
            return frequency * every // self._written
        query = tantivy.Query.term_query(self._schema, TERMS, token, "freq")
        found: Any = self._searcher.search(query, limit=1, count=True)
        return int(found.count)

    @readable
    def search(self, wanted: Wanted, *, limit: int) -> list[TermsRow]:
        """Return the ``limit`` best chunks that hold a token and meet the clause, best first by tantivy's BM25, which
        rounds lengths and uses the tenant's mean length; the caller scores them again."""
        groups = [self._group(group) for group in wanted.groups if group]
        if not groups:
            return []
        parts = [(tantivy.Occur.Must, _any(groups))]
        if wanted.clause != EVERYTHING:
            parts.append((tantivy.Occur.Must, tantivy.Query.const_score_query(self._query(wanted.clause), 0.0)))
        parts += self._unless(wanted.without)
        return [self._row(address) for address in self._found(parts, limit=limit)]

    @readable
    def rows(
        self, chunk_ids: Sequence[ChunkId], *, without: Sequence[tuple[Namespace, DocumentId]] = ()
    ) -> list[TermsRow]:
        """Return the rows of these chunks that the index has, ``without`` these documents' chunks."""
        return [self._row(address) for address in self._of_chunks(chunk_ids, without)]

    @readable
    def chunks(self, chunk_ids: Sequence[ChunkId]) -> list[Entry]:
        """Return these chunks, as far as the index has them."""
        return [self._entry(address) for address in self._of_chunks(chunk_ids)]

    @readable
    def documents(
        self, documents: Sequence[tuple[Namespace, DocumentId]], clause: Clause, *, limit: int
    ) -> list[Entry]:
        """Return up to ``limit`` chunks of these documents that meet the clause."""
        keys = self._any_of([document_key(*each) for each in documents])
        parts = [(tantivy.Occur.Must, keys), (tantivy.Occur.Must, self._query(clause))]
        return [self._entry(address) for address in self._found(parts, limit=limit)]

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
        addresses = self._found(parts, limit=limit + len(namespaces) + 1)  # the states of namespaces may be among them
        highs, lows = (self._integers(name, addresses) for name in (ID_HIGH, ID_LOW))
        found = chunk_id_bytes(highs, lows)
        return found if len(found) <= limit else None

    def _integers(self, column: str, addresses: list[tantivy.DocAddress]) -> list[int | None]:
        values: list[Any] = self._searcher.fast_field_values(column, addresses)
        return values

    def _of_chunks(
        self, chunk_ids: Sequence[ChunkId], without: Sequence[tuple[Namespace, DocumentId]] = ()
    ) -> list[tantivy.DocAddress]:
        if not chunk_ids:
            return []
        keys = [key(CHUNK_KEY, chunk_id) for chunk_id in chunk_ids]
        return self._found([(tantivy.Occur.Must, self._any_of(keys)), *self._unless(without)], limit=len(keys))

    def _found(self, parts: list[tuple[tantivy.Occur, tantivy.Query]], *, limit: int) -> list[tantivy.DocAddress]:
        hits = self._searcher.search(tantivy.Query.boolean_query(parts), limit=limit, count=False).hits
        return [address for _, address in hits]

    def _unless(self, documents: Sequence[tuple[Namespace, DocumentId]]) -> list[tuple[tantivy.Occur, tantivy.Query]]:
        keys = [document_key(*each) for each in documents]
        return [(tantivy.Occur.MustNot, self._any_of(keys))] if keys else []

    def _any_of(self, keys: Sequence[str]) -> tantivy.Query:
        """Return a query for any of these keys. It takes a fifth of the time of tantivy's query for a set of terms."""
        return tantivy.Query.const_score_query(_any([self._having(key) for key in keys]), 0.0)

    def _group(self, group: Mapping[str, float]) -> tantivy.Query:
        """Return a query for one group of tokens. Boosts replace tantivy's weights, which are of all namespaces
        together, by the caller's worths."""
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

    def _entry(self, address: tantivy.DocAddress) -> Entry:
        row, body, fields = self._stored(address, ROW, TEXT, FIELDS)
        return Entry(terms_row(row.encode()), body, fields)

    def _row(self, address: tantivy.DocAddress) -> TermsRow:
        return terms_row(self._stored(address, ROW)[0].encode())

    def _stored(self, address: tantivy.DocAddress, *names: str) -> list[str]:
        document: Any = self._searcher.doc(address)
        return [document.get_first(name) for name in names]

    def _state_at(self, address: tantivy.DocAddress) -> NamespaceState:
        [fields] = self._stored(address, FIELDS)
        said = orjson.loads(fields)
        moments = {name: said[name] and datetime.fromisoformat(said[name]) for name in ("revised_at", "created_at")}
        return NamespaceState(**said | moments)


class LocalIndexReader:
    """A tenant's index, read by many threads of many processes. An unreadable index is not kept open."""

    def __init__(self, root: Path, tenant_id: TenantId) -> None:
        self._folder = folder_of(root, tenant_id)
        self._mark = self._folder / DAMAGED
        self._lock = threading.Lock()
        self._index: tantivy.Index | None = None
        self._seen: tuple[int, int] = (0, 0)
        self._view: View | None = None

    def view(self) -> View | None:
        """Return the index at its last commit; None if there is none, or it is unreadable."""
        try:
            status = (self._folder / "meta.json").stat()
        except OSError:
            status = None
        if status is None or self._mark.exists():
            self._index = self._view = None
            return None
        seen = (status.st_mtime_ns, status.st_ino)
        with self._lock:
            if self._view is None or seen != self._seen:
                self._view = self._opened()
                self._seen = seen
            return self._view

    def distrust(self) -> None:
        """Mark the index as damaged, so that it is not read until the indexer has rebuilt it."""
        with suppress(OSError):
            self._mark.touch()

    def _opened(self) -> View | None:
        try:
            return self._at_last_commit()
        except IndexDamaged:  # perhaps another release's; the writer detects and repairs the damage
            self._index = None
            return None

    @readable
    def _at_last_commit(self) -> View:
        if self._index is None:
            self._index = tantivy.Index.open(str(self._folder))
        self._index.reload()
        return View(self._index, self._folder)


class LocalIndexWriter:
    """The one writer of a tenant's index. Changes become visible with `commit`. ``at`` is called between the steps of a
    change, with the name of the step that is done. Raises IndexUnusable, and its subclass IndexDamaged."""

    def __init__(self, root: Path, tenant_id: TenantId, *, at: Callable[[str], object] = lambda _: None) -> None:
        self._at = at
        self._folder = folder_of(root, tenant_id)
        with writing(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            make_empty(self._folder)
            self._index = tantivy.Index(schema(), path=str(self._folder), reuse=True)
            self._writer = self._index.writer(heap_size=_WRITER_BYTES, num_threads=1)
            self._writer.garbage_collect_files()  # a writer killed within a commit leaves files whose names are reused
            self._index.reload()

    @property
    def view(self) -> View:
        """The index as it was opened or last committed."""
        self._index.reload()
        return View(self._index, self._folder)

    def clear(self) -> None:
        """Delete all documents of the index."""
        self._writer.delete_all_documents()

    def forget(self, namespace: Namespace) -> None:
        """Delete a namespace and its state."""
        self._writer.delete_documents_by_term(KEYS, key(NAMESPACE_KEY, namespace))

    def replace(
        self, state: NamespaceState, document_ids: Sequence[DocumentId] | None, chunks: Iterable[IndexedChunk]
    ) -> int:
        """Replace these documents' chunks (None: all of the namespace) by ``chunks``, and store the revision. Returns
        how many chunks were added."""
        namespace = state.namespace
        if document_ids is None:
            self.forget(namespace)
        else:
            for document_id in document_ids:
                self._writer.delete_documents_by_term(KEYS, document_key(namespace, document_id))
            self._writer.delete_documents_by_term(KEYS, key(STATE_KEY, namespace))
        self._at("left out")
        added = 0
        for chunk in chunks:
            with writing(self._folder):
                self._writer.add_document(chunk_document(chunk))
            added += 1
        with writing(self._folder):
            self._writer.add_document(state_document(state))
        self._at("replaced")
        return added

    def commit(self) -> None:
        """Make all changes durable and visible at once. Raises IndexUnusable, after which the index is as before."""
        with writing(self._folder):
            self._writer.commit()
            self._at("committed")
            self._writer.garbage_collect_files()

    def close(self) -> None:
        """Wait for the merges under way, and release the lock. The writer cannot be used afterwards. Errors that were
        raised before are raised again here and ignored."""
        with suppress(ValueError):
            self._writer.wait_merging_threads()

    def sizes(self) -> tuple[int, int]:
        """Return how many chunks are on disk, and how many of them are deleted."""
        return _sizes(self._folder)


def remove(root: Path, tenant_id: TenantId) -> None:
    """Delete a tenant's index. Readers that have it open see it until they open it again."""
    shutil.rmtree(folder_of(root, tenant_id), ignore_errors=True)


def is_whole(root: Path, tenant_id: TenantId) -> bool:
    """Return whether a tenant's index exists and is not marked as damaged."""
    folder = folder_of(root, tenant_id)
    return (folder / "meta.json").exists() and not (folder / DAMAGED).exists()


def remove_others(root: Path, tenant_ids: Iterable[TenantId]) -> int:
    """Delete the indexes of all other tenants and formats. Returns how many folders were deleted."""
    wanted = {folder_of(root, tenant_id) for tenant_id in tenant_ids}
    gone = 0
    for folder in root.glob("format-*/*"):
        if folder not in wanted:
            shutil.rmtree(folder, ignore_errors=True)
            gone += 1
    return gone


def _sizes(folder: Path) -> tuple[int, int]:
    """Return how many tantivy documents are on disk, and how many of them are deleted, at the last commit."""
    segments = orjson.loads((folder / "meta.json").read_bytes())["segments"]
    deleted = sum((segment["deletes"] or {}).get("num_deleted_docs", 0) for segment in segments)
    return sum(segment["max_doc"] for segment in segments), deleted


def _any(queries: Sequence[Any]) -> tantivy.Query:
    if not queries:
        return tantivy.Query.empty_query()
    return tantivy.Query.boolean_query([(tantivy.Occur.Should, query) for query in queries])
