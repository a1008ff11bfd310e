"""The tantivy schema of a host's keyword index, and the documents for chunks and namespaces."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
import tantivy

from pipeline.documents.chunk_store import stored_chunk
from pipeline.filters.index_filters import microseconds, sortable_values, terms_of_fields
from pipeline.keyword.fulltext_store import terms_row
from pipeline.keyword_index.indexed_chunk_store import IndexedChunk, NamespaceState
from pipeline.records import DocumentFields, DocumentId, Namespace

FORMAT: Final = "4"  # in the folder's name: an index of another format is built beside it
TERMS, KEYS, PUBLISHED, STORY_TIME = "terms", "keys", "published_at", "story_time"
ROW, TEXT, FIELDS = "row", "text", "fields"
SORTABLE = "sortable"  # metadata that is compared by order, as JSON with hashed keys
ID_HIGH, ID_LOW = "id_high", "id_low"  # the halves of a chunk's UUID, in columns that are read by the thousand
NAMESPACE_KEY, DOCUMENT_KEY, CHUNK_KEY, STATE_KEY, FIELD_KEY, METADATA_KEY = "n", "d", "c", "s", "f", "m"
_STORED = (ROW, TEXT, FIELDS)
_BLOCK_BYTES = 4096  # of stored chunks: a quarter of tantivy's own size takes 0.6 of the time and 1.2 of the disk
_HALF = 64  # bits
_SIGN = 2**63  # tantivy's integers are signed


def make_empty(folder: Path) -> None:
    """Create an empty index unless there is one. Its blocks are small, because reading a chunk decompresses a block;
    tantivy's Python package has no setting for their size."""
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
    row = terms_row(chunk.terms)
    stored = stored_chunk("", chunk.fields)
    fields = DocumentFields(author=stored.author, type=stored.type, tags=stored.tags, metadata=stored.metadata)
    keys = [
        key(NAMESPACE_KEY, row.namespace),
        document_key(row.namespace, DocumentId(stored.document_id)),
        key(CHUNK_KEY, row.chunk_id),
        *(key(FIELD_KEY, term) for term in terms_of_fields(fields, chunk_type=stored.chunk_type)),
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
    if sortable := sortable_values(stored.metadata):
        document.add_json(SORTABLE, {key(METADATA_KEY, name): value for name, value in sortable.items()})
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


def chunk_id_bytes(highs: Sequence[int | None], lows: Sequence[int | None]) -> list[bytes]:
    """Return the 16 bytes of each chunk id, given the values of the columns `ID_HIGH` and `ID_LOW`. Documents without them,
    the states of namespaces, are left out."""
    halves = [(high, low) for high, low in zip(highs, lows, strict=True) if high is not None and low is not None]
    packed = (np.array(halves, np.int64).reshape(-1, 2).view(np.uint64) ^ np.uint64(_SIGN)).astype(">u8").tobytes()
    return [packed[at : at + 16] for at in range(0, len(packed), 16)]
