"""A tantivy index of one tenant's shown chunks in a folder of this host: a cache that may be deleted at any moment.

Every chunk is one document of tantivy with its terms as MySQL has them, its keys (the tokens of chunk, document,
namespace and field terms), and what is needed to score and show it. Beside the chunks of a namespace stands its state:
the revision at which they were read. Both change in one commit, so a reader sees a namespace as it was at one revision.
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

from pipeline.core.bm25 import K1
from pipeline.core.index_terms import (
    EVERYTHING,
    Between,
    Clause,
    Either,
    Having,
    Never,
    microseconds,
    terms_of_fields,
)
from pipeline.records import ChunkId, DocumentFields, DocumentId, Namespace, TenantId
from pipeline.stores.chunks import StoredChunk, stored_chunk
from pipeline.stores.index_faults import IndexDamaged, readable, writing
from pipeline.stores.indexed_chunks import IndexedChunk, NamespaceState
from pipeline.stores.keyword import TermsRow, terms_row

DAMAGED = "damaged"  # a mark in the folder of an index that is to be built anew
FORMAT = "2"  # of the folder: another one is built beside it
_MOST_COUNTED = 50_000  # chunks; counting them takes some 0.2 ms
_BLOCK_BYTES = 4096  # of stored chunks: a quarter of tantivy's own size takes 0.6 of the time and 1.2 of the disk
_WRITER_BYTES = 48_000_000  # tantivy takes no less than 15 MB a thread
_TERMS, _KEYS, _PUBLISHED, _STORY_TIME, _ROW, _TEXT, _FIELDS = (
    "terms",
    "keys",
    "published_at",
    "story_time",
    "row",
    "text",
    "fields",
)
_STORED = (_ROW, _TEXT, _FIELDS)
_NAMESPACE_KEY, _DOCUMENT_KEY, _CHUNK_KEY, _STATE_KEY, _FIELD_KEY = "n", "d", "c", "s", "f"


class Entry(NamedTuple):
    """A chunk that was found. ``text`` and ``fields`` are read by `stored`."""

    row: TermsRow
    text: str
    fields: str

    def stored(self) -> StoredChunk:
        """Return the chunk as MySQL had it."""
        return stored_chunk(self.text, self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A search: groups of tokens with the worth of each, in the same unit as BM25's ``(k1 + 1) * idf``; of a
    group the best token counts. ``clause``: what fields have to be like. ``without``: documents that are left out."""

    groups: Sequence[Mapping[str, float]]
    clause: Clause = EVERYTHING
    without: Sequence[tuple[Namespace, DocumentId]] = ()


def folder_of(root: Path, tenant_id: TenantId) -> Path:
    """Return the folder of a tenant's index. Its name is a hash, so that every id makes a name of a file."""
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
            found = self._searcher.search(self._having(_key(_STATE_KEY, namespace)), limit=1, count=False).hits
            self._states[namespace] = self._state_at(found[0][1]) if found else None
        return self._states[namespace]

    @readable
    def states(self) -> dict[Namespace, NamespaceState]:
        """Return the state of every namespace of the index."""
        hits = self._searcher.search(self._having(_STATE_KEY), limit=max(1, self._searcher.num_docs), count=False).hits
        return {state.namespace: state for state in (self._state_at(address) for _, address in hits)}

    @readable
    def frequencies(self, tokens: Sequence[str]) -> dict[str, int]:
        """Return in how many chunks each token occurs; a token in none is left out, and not remembered: a misspelt word has
        hundreds. Tantivy's own figure has chunks that were deleted and not yet merged away, so where there are any it is
        counted; a very frequent token's is reduced by the share of all that they are."""
        known, held = self._frequencies, self._searcher.doc_freq
        for token in tokens:
            if token not in known and (frequency := int(held(_TERMS, token))):
                known[token] = self._counted(token, frequency)
        return {token: known[token] for token in tokens if token in known}

    def _counted(self, token: str, frequency: int) -> int:
        every = self._searcher.num_docs
        if self._written <= every:
            return frequency
        if frequency > _MOST_COUNTED:
            return frequency * every // self._written
        query = tantivy.Query.term_query(self._schema, _TERMS, token, "freq")
        found: Any = self._searcher.search(query, limit=1, count=True)
        return int(found.count)

    @readable
    def search(self, wanted: Wanted, *, limit: int) -> list[TermsRow]:
        """Return the ``limit`` best chunks that hold a token and meet the clause, best first by tantivy's BM25: lengths
        are rounded there, and the mean length is that of the tenant, so the caller scores them again."""
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
        """Return the rows of these chunks, those that the index has, ``without`` these documents' chunks."""
        return [self._row(address) for address in self._of_chunks(chunk_ids, without)]

    @readable
    def chunks(self, chunk_ids: Sequence[ChunkId]) -> list[Entry]:
        """Return these chunks, those that the index has."""
        return [self._entry(address) for address in self._of_chunks(chunk_ids)]

    @readable
    def documents(
        self, documents: Sequence[tuple[Namespace, DocumentId]], clause: Clause, *, limit: int
    ) -> list[Entry]:
        """Return up to ``limit`` chunks of these documents that meet the clause."""
        keys = self._any_of([_document_key(*each) for each in documents])
        parts = [(tantivy.Occur.Must, keys), (tantivy.Occur.Must, self._query(clause))]
        return [self._entry(address) for address in self._found(parts, limit=limit)]

    def _of_chunks(
        self, chunk_ids: Sequence[ChunkId], without: Sequence[tuple[Namespace, DocumentId]] = ()
    ) -> list[tantivy.DocAddress]:
        if not chunk_ids:
            return []
        keys = [_key(_CHUNK_KEY, chunk_id) for chunk_id in chunk_ids]
        return self._found([(tantivy.Occur.Must, self._any_of(keys)), *self._unless(without)], limit=len(keys))

    def _found(self, parts: list[tuple[tantivy.Occur, tantivy.Query]], *, limit: int) -> list[tantivy.DocAddress]:
        hits = self._searcher.search(tantivy.Query.boolean_query(parts), limit=limit, count=False).hits
        return [address for _, address in hits]

    def _unless(self, documents: Sequence[tuple[Namespace, DocumentId]]) -> list[tuple[tantivy.Occur, tantivy.Query]]:
        keys = [_document_key(*each) for each in documents]
        return [(tantivy.Occur.MustNot, self._any_of(keys))] if keys else []

    def _any_of(self, keys: Sequence[str]) -> tantivy.Query:
        """A query for any of these keys. It takes a fifth of the time of tantivy's query for a set of terms."""
        return tantivy.Query.const_score_query(_any([self._having(key) for key in keys]), 0.0)

    def _group(self, group: Mapping[str, float]) -> tantivy.Query:
        """A token's boost makes tantivy's weight, which is of all namespaces together, what the caller says it is worth."""
        boosted = [
            tantivy.Query.boost_query(
                tantivy.Query.term_query(self._schema, _TERMS, token, "freq"), worth / ((K1 + 1) * self._idf(token))
            )
            for token, worth in group.items()
        ]
        return boosted[0] if len(boosted) == 1 else tantivy.Query.disjunction_max_query(boosted)

    def _idf(self, token: str) -> float:
        """As tantivy computes it: of everything that was written, deleted or not."""
        frequency = min(self._written, int(self._searcher.doc_freq(_TERMS, token)))
        return math.log1p((self._written - frequency + 0.5) / (frequency + 0.5))

    def _query(self, clause: Clause) -> tantivy.Query:
        if isinstance(clause, Having):
            return self._having(_key(_FIELD_KEY, clause.term))
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
        return tantivy.Query.term_query(self._schema, _KEYS, key, "basic")

    def _entry(self, address: tantivy.DocAddress) -> Entry:
        row, body, fields = self._stored(address, _ROW, _TEXT, _FIELDS)
        return Entry(terms_row(row.encode()), body, fields)

    def _row(self, address: tantivy.DocAddress) -> TermsRow:
        return terms_row(self._stored(address, _ROW)[0].encode())

    def _stored(self, address: tantivy.DocAddress, *names: str) -> list[str]:
        document: Any = self._searcher.doc(address)
        return [document.get_first(name) for name in names]

    def _state_at(self, address: tantivy.DocAddress) -> NamespaceState:
        [fields] = self._stored(address, _FIELDS)
        said = orjson.loads(fields)
        moments = {name: said[name] and datetime.fromisoformat(said[name]) for name in ("revised_at", "created_at")}
        return NamespaceState(**said | moments)


class LocalIndexReader:
    """A tenant's index, read by many threads of many processes. Nothing is kept open of an index that cannot be read."""

    def __init__(self, root: Path, tenant_id: TenantId) -> None:
        self._folder = folder_of(root, tenant_id)
        self._mark = self._folder / DAMAGED
        self._lock = threading.Lock()
        self._index: tantivy.Index | None = None
        self._seen: tuple[int, int] = (0, 0)
        self._view: View | None = None

    def view(self) -> View | None:
        """Return the index at its last commit; None if there is none that can be read."""
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
        """Mark the index as damaged: nobody reads it until the indexer has built it anew."""
        with suppress(OSError):
            self._mark.touch()

    def _opened(self) -> View | None:
        try:
            return self._at_last_commit()
        except IndexDamaged:  # perhaps another release's; the writer finds out what is wrong and mends it
            self._index = None
            return None

    @readable
    def _at_last_commit(self) -> View:
        if self._index is None:
            self._index = tantivy.Index.open(str(self._folder))
        self._index.reload()
        return View(self._index, self._folder)


class LocalIndexWriter:
    """The one writer of a tenant's index. Changes are seen with `commit` and not before. ``at`` is called between the steps
    of a change, with the name of the one that is done. Raises IndexUnusable, and its kind IndexDamaged."""

    def __init__(self, root: Path, tenant_id: TenantId, *, at: Callable[[str], object] = lambda _: None) -> None:
        self._at = at
        self._folder = folder_of(root, tenant_id)
        with writing(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            _make(self._folder)
            self._index = tantivy.Index(_schema(), path=str(self._folder), reuse=True)
            self._writer = self._index.writer(heap_size=_WRITER_BYTES, num_threads=1)
            self._index.reload()

    @property
    def view(self) -> View:
        """The index as it was opened or last committed."""
        self._index.reload()
        return View(self._index, self._folder)

    def clear(self) -> None:
        """Leave out everything there is."""
        self._writer.delete_all_documents()

    def forget(self, namespace: Namespace) -> None:
        """Leave out a namespace and its state."""
        self._writer.delete_documents_by_term(_KEYS, _key(_NAMESPACE_KEY, namespace))

    def replace(
        self, state: NamespaceState, document_ids: Sequence[DocumentId] | None, chunks: Iterable[IndexedChunk]
    ) -> int:
        """Put ``chunks`` in the place of these documents' chunks, or of all of the namespace's for None, and note the
        revision. Gives how many chunks were added."""
        namespace = state.namespace
        if document_ids is None:
            self.forget(namespace)
        else:
            for document_id in document_ids:
                self._writer.delete_documents_by_term(_KEYS, _document_key(namespace, document_id))
            self._writer.delete_documents_by_term(_KEYS, _key(_STATE_KEY, namespace))
        self._at("left out")
        added = 0
        for chunk in chunks:
            with writing(self._folder):
                self._writer.add_document(_document(chunk))
            added += 1
        with writing(self._folder):
            self._writer.add_document(_state_document(state))
        self._at("replaced")
        return added

    def commit(self) -> None:
        """Make all changes durable and visible at once. Raises IndexUnusable, after which the index is as before."""
        with writing(self._folder):
            self._writer.commit()
            self._at("committed")
            self._writer.garbage_collect_files()

    def close(self) -> None:
        """End the merges under way, and let go of the lock. The writer cannot be used afterwards. What failed before fails
        here once more, which is no news."""
        with suppress(ValueError):
            self._writer.wait_merging_threads()

    def sizes(self) -> tuple[int, int]:
        """Return how many chunks lie on disk, and how many of them were deleted."""
        return _sizes(self._folder)


def remove(root: Path, tenant_id: TenantId) -> None:
    """Delete a tenant's index. Readers that have it open see it until they look again."""
    shutil.rmtree(folder_of(root, tenant_id), ignore_errors=True)


def is_whole(root: Path, tenant_id: TenantId) -> bool:
    """Whether a tenant's index is there and nobody has found it damaged."""
    folder = folder_of(root, tenant_id)
    return (folder / "meta.json").exists() and not (folder / DAMAGED).exists()


def remove_others(root: Path, tenant_ids: Iterable[TenantId]) -> int:
    """Delete the indexes of all tenants but these, and those of other formats. Gives how many folders went."""
    wanted = {folder_of(root, tenant_id) for tenant_id in tenant_ids}
    gone = 0
    for folder in root.glob("format-*/*"):
        if folder not in wanted:
            shutil.rmtree(folder, ignore_errors=True)
            gone += 1
    return gone


def _sizes(folder: Path) -> tuple[int, int]:
    """How many documents of tantivy lie on disk, and how many of them were deleted, at the last commit."""
    segments = orjson.loads((folder / "meta.json").read_bytes())["segments"]
    deleted = sum((segment["deletes"] or {}).get("num_deleted_docs", 0) for segment in segments)
    return sum(segment["max_doc"] for segment in segments), deleted


def _make(folder: Path) -> None:
    """Make an empty index if there is none, with small blocks: a chunk is read by decompressing one. tantivy's Python package
    has no setting for it."""
    meta = folder / "meta.json"
    if not meta.exists():
        tantivy.Index(_schema(), path=str(folder))
        description = orjson.loads(meta.read_bytes())
        description["index_settings"]["docstore_blocksize"] = _BLOCK_BYTES
        meta.write_bytes(orjson.dumps(description))


def _schema() -> tantivy.Schema:
    """Return the fields of an index. What is only stored is text, since tantivy reads bytes one by one and takes three times
    as long for them. Its Python package makes no text that is not indexed, so that is taken out of what it made."""
    builder = tantivy.SchemaBuilder()
    builder.add_text_field(_TERMS, stored=False, tokenizer_name="whitespace", index_option="freq")
    builder.add_text_field(_KEYS, stored=False, tokenizer_name="whitespace", index_option="basic")
    builder.add_integer_field(_PUBLISHED, stored=False, indexed=True, fast=True)
    builder.add_integer_field(_STORY_TIME, stored=False, indexed=True, fast=True)
    for name in _STORED:
        builder.add_text_field(name, stored=True, tokenizer_name="raw")
    reduced: Any = builder.build().__reduce__()  # as for pickle
    make, (described,) = reduced
    for field in described["inner"]:
        if field["name"] in _STORED:
            del field["options"]["indexing"]
    schema: tantivy.Schema = make(described)
    return schema


def _document(chunk: IndexedChunk) -> tantivy.Document:
    row = terms_row(chunk.terms)
    stored = stored_chunk("", chunk.fields)
    fields = DocumentFields(author=stored.author, type=stored.type, tags=stored.tags, metadata=stored.metadata)
    keys = [
        _key(_NAMESPACE_KEY, row.namespace),
        _document_key(row.namespace, DocumentId(stored.document_id)),
        _key(_CHUNK_KEY, row.chunk_id),
        *(_key(_FIELD_KEY, term) for term in terms_of_fields(fields, chunk_type=stored.chunk_type)),
    ]
    document = tantivy.Document()
    document.add_text(_TERMS, row.terms.decode("ascii"))
    document.add_text(_KEYS, " ".join(keys))
    if stored.published_at is not None:
        document.add_integer(_PUBLISHED, microseconds(stored.published_at))
    if stored.story_time is not None:
        document.add_integer(_STORY_TIME, stored.story_time)
    document.add_text(_ROW, chunk.terms.decode())
    document.add_text(_TEXT, chunk.text)
    document.add_text(_FIELDS, chunk.fields)
    return document


def _state_document(state: NamespaceState) -> tantivy.Document:
    document = tantivy.Document()
    document.add_text(
        _KEYS, " ".join([_STATE_KEY, _key(_STATE_KEY, state.namespace), _key(_NAMESPACE_KEY, state.namespace)])
    )
    document.add_text(_FIELDS, orjson.dumps(state).decode())
    return document


def _key(kind: str, value: str) -> str:
    """A hash, so that no value is too long or has a space in it; the kind keeps apart what is written alike."""
    return kind + hashlib.blake2b(value.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()


def _document_key(namespace: Namespace, document_id: DocumentId) -> str:
    return _key(_DOCUMENT_KEY, f"{namespace}\0{document_id}")


def _any(queries: Sequence[Any]) -> tantivy.Query:
    if not queries:
        return tantivy.Query.empty_query()
    return tantivy.Query.boolean_query([(tantivy.Occur.Should, query) for query in queries])
