"""One tenant's tantivy index: its schema, the documents for chunks and namespaces, and searches at one of its commits."""

import hashlib
import math
import uuid
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import numpy as np
import orjson
import tantivy

from pipeline.documents.chunk_store import StoredChunk, stored_chunk
from pipeline.filters.index_filters import (
    EVERYTHING,
    Between,
    Clause,
    Either,
    Having,
    Never,
    Ordered,
    listed_values,
    microseconds,
    sortable_values,
    terms_of_fields,
    value_of,
)
from pipeline.filters.python_filters import METADATA
from pipeline.filters.used_fields import Counts, is_countable
from pipeline.keyword.fulltext_store import terms_row
from pipeline.keyword.normal_form import content_hash
from pipeline.keyword.query_words import TermsRow
from pipeline.keyword.scoring import K1
from pipeline.keyword_index.index_faults import readable
from pipeline.keyword_index.indexed_chunk_store import IndexedChunk, NamespaceState
from pipeline.records import Caps, ChunkId, DocumentId, Namespace

FORMAT: Final = "6"  # in the folder's name: an index of another format is built beside it
TERMS, KEYS, PUBLISHED, STORY_TIME = "terms", "keys", "published_at", "story_time"
ROW, TEXT, FIELDS = "row", "text", "fields"
SORTABLE = "sortable"  # metadata that is compared by order, and other values that are counted, as JSON with hashed keys
ID_HIGH, ID_LOW = "id_high", "id_low"  # the halves of a chunk's UUID, in columns that are read by the thousand
NAMESPACE_KEY, DOCUMENT_KEY, CHUNK_KEY, STATE_KEY, FIELD_KEY, METADATA_KEY = "n", "d", "c", "s", "f", "m"
CONTENT_KEY, LISTED_KEY = "t", "l"
_STORED = (ROW, TEXT, FIELDS)
_BLOCK_BYTES = 4096  # of stored chunks: a quarter of tantivy's own size takes 0.6 of the time and 1.2 of the disk
_HALF = 64  # bits
_SIGN = 2**63  # tantivy's integers are signed


def make_empty(folder: Path) -> None:
    """Create an empty index unless there is one. Small blocks, for which the package has no setting, read faster."""
    meta = folder / "meta.json"
    if not meta.exists():
        tantivy.Index(schema(), path=str(folder))
        description = orjson.loads(meta.read_bytes())
        description["index_settings"]["docstore_blocksize"] = _BLOCK_BYTES
        meta.write_bytes(orjson.dumps(description))


def schema() -> tantivy.Schema:
    """Return the fields of an index.

    Stored fields are text, because tantivy reads bytes one by one and takes three times as long for them. Its Python
    package makes no text field that is not indexed, so the index options are removed from the schema that it made.
    """
    builder = tantivy.SchemaBuilder()
    builder.add_text_field(TERMS, stored=False, tokenizer_name="whitespace", index_option="freq")
    builder.add_text_field(KEYS, stored=False, tokenizer_name="whitespace", index_option="basic")
    builder.add_integer_field(PUBLISHED, stored=False, indexed=True, fast=True)
    builder.add_integer_field(STORY_TIME, stored=False, indexed=True, fast=True)
    builder.add_json_field(SORTABLE, stored=False, fast=True, tokenizer_name="raw", index_option="basic")
    for name in (ID_HIGH, ID_LOW):
        builder.add_integer_field(name, stored=False, indexed=False, fast=True)
    for name in _STORED:
        builder.add_text_field(name, stored=True, tokenizer_name="raw")
    reduced: Any = builder.build().__reduce__()  # as for pickle
    make, (described,) = reduced
    for field in described["inner"]:
        if field["name"] in _STORED:
            del field["options"]["indexing"]
    stored_only: tantivy.Schema = make(described)
    return stored_only


def chunk_document(chunk: IndexedChunk) -> tantivy.Document:
    """Return a chunk as tantivy indexes it."""
    row = terms_row(chunk.terms.decode())
    stored = stored_chunk("", chunk.fields)
    keys = [
        key(NAMESPACE_KEY, row.namespace),
        document_key(row.namespace, DocumentId(stored.document_id)),
        key(CHUNK_KEY, row.chunk_id),
        content_key(chunk.text),
        *(key(FIELD_KEY, term) for term in terms_of_fields(stored, chunk_type=stored.chunk_type)),
    ]
    document = tantivy.Document()
    document.add_text(TERMS, row.terms.decode("ascii"))
    document.add_text(KEYS, " ".join(keys))
    high, low = divmod(uuid.UUID(row.chunk_id).int, 1 << _HALF)
    document.add_integer(ID_HIGH, high - _SIGN)
    document.add_integer(ID_LOW, low - _SIGN)
    if stored.published_at is not None:
        document.add_integer(PUBLISHED, microseconds(stored.published_at))
    if stored.story_time is not None:
        document.add_integer(STORY_TIME, stored.story_time)
    values: dict[str, Any] = {key(METADATA_KEY, name): text for name, text in sortable_values(stored.metadata).items()}
    values |= {key(LISTED_KEY, name): texts for name, texts in listed_values(stored).items()}
    if values:
        document.add_json(SORTABLE, values)
    document.add_text(ROW, chunk.terms.decode())
    document.add_text(TEXT, chunk.text)
    document.add_text(FIELDS, chunk.fields)
    return document


def state_document(state: NamespaceState) -> tantivy.Document:
    """Return the state of a namespace as a tantivy document, stored beside the namespace's chunks."""
    document = tantivy.Document()
    document.add_text(KEYS, " ".join([STATE_KEY, key(STATE_KEY, state.namespace), key(NAMESPACE_KEY, state.namespace)]))
    document.add_text(FIELDS, orjson.dumps(state).decode())
    return document


def key(kind: str, value: str) -> str:
    """Return the index term of a value: the kind of value, followed by a hash of fixed length without spaces."""
    return kind + hashlib.blake2b(value.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()


def document_key(namespace: Namespace, document_id: DocumentId) -> str:
    """Return the term of a document's chunks."""
    return key(DOCUMENT_KEY, f"{namespace}\0{document_id}")


def content_key(text: str) -> str:
    """Return the term that chunks of equal texts share, as `keyword.normal_form.content_hash` tells them apart."""
    return key(CONTENT_KEY, content_hash(text).hex())


def chunk_id_bytes(highs: Sequence[int | None], lows: Sequence[int | None]) -> list[bytes]:
    """Return the 16 bytes of each chunk id from both columns; the states of namespaces have none."""
    halves = [(high, low) for high, low in zip(highs, lows, strict=True) if high is not None and low is not None]
    packed = (np.array(halves, np.int64).reshape(-1, 2).view(np.uint64) ^ np.uint64(_SIGN)).astype(">u8").tobytes()
    return [packed[at : at + 16] for at in range(0, len(packed), 16)]


_MOST_SEARCHES = 32
_MOST_TIED = 1_300  # chunks compared by id; the same for every limit, which is no more
_EQUAL = 1e-6  # of a score, which tantivy adds up in single precision, in any order
_MOST_COUNTED = 50_000  # chunks; counting them takes some 0.2 ms
_MOST_VALUES = 2_000  # of a field; tantivy returns 65,000 of all fields together
_MOST_IN_SEGMENT = 60_000  # values of a field; 200,000 take 45 ms
_MOST: Final = {"size": _MOST_VALUES, "segment_size": _MOST_IN_SEGMENT}


class IndexEntry(NamedTuple):
    """A chunk in the index. ``text`` and ``fields`` are decoded by `stored`."""

    row: TermsRow
    text: str
    fields: str

    def document_key(self) -> str:
        """Return the term of the chunk's document."""
        return document_key(self.row.namespace, DocumentId(orjson.loads(self.fields)["document_id"]))

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
        """Return the number of chunks that hold each token, without those of none, which are not cached. Tantivy's
        figure includes deleted chunks, so with any of these the chunks are counted; a very frequent token's figure is
        reduced by their share."""
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
    def search(self, wanted: IndexSearch, *, limit: int, read: dict[object, TermsRow] | None = None) -> list[TermsRow]:
        """Return the ``limit`` best chunks that hold a token and meet the clause; the caller scores them again. Of those
        that score as the last one, those with the lowest ids, so that a smaller limit gives a part of the same chunks.
        ``read``: rows that were read before, by their addresses; it gets the others."""
        parts = self._parts(wanted)
        return self._rows(self._best(parts, limit=limit), read) if parts else []

    def _best(self, parts: list[tuple[tantivy.Occur, tantivy.Query]], *, limit: int) -> list[tantivy.DocAddress]:
        query = tantivy.Query.boolean_query(parts)
        hits = self._searcher.search(query, limit=limit + 1, count=False).hits
        if len(hits) <= limit or hits[limit][0] < (last := hits[limit - 1][0]) * (1 - _EQUAL):
            return [address for _, address in hits[:limit]]
        hits = self._searcher.search(query, limit=max(_MOST_TIED, limit), count=False).hits
        better = [address for score, address in hits if score > last * (1 + _EQUAL)]
        tied = [address for score, address in hits if last * (1 - _EQUAL) <= score <= last * (1 + _EQUAL)]
        highs = np.array(self._searcher.fast_field_values(ID_HIGH, tied), np.int64)
        return better + [tied[place] for place in highs.argsort(kind="stable")[: limit - len(better)]]

    @readable
    def within_caps(self, wanted: IndexSearch, caps: Caps, *, limit: int) -> tuple[list[TermsRow], bool]:
        """Return the same within the caps, and whether some are missing. Documents and texts that have their number are
        left out of the next search, as long as fewer than ``limit`` chunks were found: 32 searches at most."""
        chunks: dict[ChunkId, TermsRow] = {}
        of_document: Counter[str] = Counter()
        full: set[str] = set()
        for _ in range(_MOST_SEARCHES):
            parts = self._parts(wanted)
            addresses = self._addresses(parts + self._without(full), limit=limit) if parts else []
            known = len(full)
            for entry in map(self._entry, addresses):
                document, content = entry.document_key(), content_key(entry.text) if caps.contents else ""
                if entry.row.chunk_id in chunks or not full.isdisjoint((document, content)):
                    continue
                chunks[entry.row.chunk_id] = entry.row
                of_document[document] += 1
                if of_document[document] == caps.per_document:
                    full.add(document)
                if caps.contents:
                    full.add(content)
            if len(addresses) < limit or len(chunks) >= limit or len(full) == known:
                break
        return list(chunks.values())[:limit], len(chunks) < limit <= len(addresses)

    @readable
    def count_values(
        self, wanted: IndexSearch, chunk_ids: Sequence[ChunkId], fields: Sequence[str]
    ) -> tuple[int, list[tuple[Counts, int]]]:
        """Return how many chunks hold a token or are named, and meet the clause, and for each field how many of them hold
        each value: of a list every one. Of more than 2,000 values it returns the most frequent, and the count of the others."""
        parts = self._parts(wanted, also=chunk_ids)
        if not parts:
            return 0, [(Counter(), 0) for _ in fields]
        query = tantivy.Query.boolean_query(parts)
        asked = {
            f"{kind}{number}": {"terms": {"field": f"{SORTABLE}.{name}", **_MOST}}
            for number, field in enumerate(fields)
            for kind, name in _columns(field)
        }
        found: Any = self._searcher.aggregate(query, asked)
        result: Any = self._searcher.search(query, limit=1, count=True)
        return int(result.count), [_value_counts(found, number) for number in range(len(fields))]

    def _parts(self, wanted: IndexSearch, *, also: Sequence[ChunkId] = ()) -> list[tuple[tantivy.Occur, tantivy.Query]]:
        groups = [self._group(group) for group in wanted.groups if group]
        if also:
            groups.append(self._any_of([key(CHUNK_KEY, chunk_id) for chunk_id in also]))
        if not groups:
            return []
        parts = [(tantivy.Occur.Must, _any(groups))]
        if wanted.clause != EVERYTHING:
            parts.append((tantivy.Occur.Must, tantivy.Query.const_score_query(self._query(wanted.clause), 0.0)))
        return parts + self._unless(wanted.without)

    @readable
    def rows(
        self,
        chunk_ids: Sequence[ChunkId],
        *,
        without: Sequence[tuple[Namespace, DocumentId]] = (),
        read: dict[object, TermsRow] | None = None,
    ) -> list[TermsRow]:
        """Return the rows of these chunks that the index has, ``without`` these documents' chunks. ``read``: see `search`."""
        return self._rows(self._of_chunks(chunk_ids, without), read)

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
        """Return the ids (16 bytes each) of all chunks that meet the clause, None above ``limit``; 20,000 take 5 ms."""
        in_namespaces = self._any_of([key(NAMESPACE_KEY, namespace) for namespace in namespaces])
        meeting = tantivy.Query.const_score_query(self._query(clause), 0.0)
        parts = [(tantivy.Occur.Must, in_namespaces), (tantivy.Occur.Must, meeting), *self._unless(without)]
        # The states of namespaces may be among them.
        addresses = self._addresses(parts, limit=limit + len(namespaces) + 1)
        columns: list[list[Any]] = [self._searcher.fast_field_values(name, addresses) for name in (ID_HIGH, ID_LOW)]
        chunk_ids = chunk_id_bytes(*columns)
        return chunk_ids if len(chunk_ids) <= limit else None

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
        return self._without([document_key(*document) for document in documents])

    def _without(self, keys: Collection[str]) -> list[tuple[tantivy.Occur, tantivy.Query]]:
        return [(tantivy.Occur.MustNot, self._any_of(keys))] if keys else []

    def _any_of(self, keys: Collection[str]) -> tantivy.Query:
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
        return IndexEntry(terms_row(row), body, fields)

    def _rows(
        self, addresses: Sequence[tantivy.DocAddress], read: dict[object, TermsRow] | None = None
    ) -> list[TermsRow]:
        known, load, rows = {} if read is None else read, cast(Any, self._searcher.doc), list[TermsRow]()
        for address in addresses:
            place = address.segment_ord, address.doc
            if (row := known.get(place)) is None:
                row = known[place] = terms_row(load(address).get_first(ROW))
            rows.append(row)
        return rows

    def _stored(self, address: tantivy.DocAddress, *names: str) -> list[str]:
        document: Any = self._searcher.doc(address)
        return [document.get_first(name) for name in names]

    def _state_at(self, address: tantivy.DocAddress) -> NamespaceState:
        [fields] = self._stored(address, FIELDS)
        state = orjson.loads(fields)
        moments = {name: state[name] and datetime.fromisoformat(state[name]) for name in ("revised_at", "created_at")}
        return NamespaceState(**state | moments)


def _columns(field: str) -> list[tuple[str, str]]:
    """Return where the values of a field are: every field's as JSON, keys of the metadata also sortable."""
    listed = (LISTED_KEY, key(LISTED_KEY, field))
    is_key = field.startswith(METADATA)
    return [listed, (METADATA_KEY, key(METADATA_KEY, field.removeprefix(METADATA)))] if is_key else [listed]


def _value_counts(found: Mapping[str, Any], number: int) -> tuple[Counts, int]:
    counts, unnamed = Counts(), 0
    for kind in (LISTED_KEY, METADATA_KEY):
        column = found.get(f"{kind}{number}", {"buckets": (), "sum_other_doc_count": 0})
        unnamed += column["sum_other_doc_count"]
        for bucket in column["buckets"]:
            value = orjson.loads(bucket["key"]) if kind == LISTED_KEY else value_of(bucket["key"])
            if is_countable(value):
                counts[type(value), value] += bucket["doc_count"]
    return counts, unnamed


def sizes_on_disk(folder: Path) -> tuple[int, int]:
    """Return how many tantivy documents are on disk, and how many of them are deleted, at the last commit."""
    segments = orjson.loads((folder / "meta.json").read_bytes())["segments"]
    deleted = sum((segment["deletes"] or {}).get("num_deleted_docs", 0) for segment in segments)
    return sum(segment["max_doc"] for segment in segments), deleted


def _any(queries: Sequence[Any]) -> tantivy.Query:
    if not queries:
        return tantivy.Query.empty_query()
    return tantivy.Query.boolean_query([(tantivy.Occur.Should, query) for query in queries])
