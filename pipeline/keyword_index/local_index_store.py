"""A tantivy index of one tenant's shown chunks in a folder of this host: a cache that may be deleted at any time.

Every chunk is one document of tantivy with its terms as in MySQL, its keys (the tokens of chunk, document, namespace
and field terms), and the fields needed to score and show it. Each namespace has one more document with its state: the
revision at which its chunks were read. Both change in one commit, so a reader sees a namespace at one revision.
"""

import hashlib
import shutil
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import tantivy

from pipeline.keyword_index.index_faults import IndexDamaged, readable, writing
from pipeline.keyword_index.index_search import (
    FORMAT,
    KEYS,
    NAMESPACE_KEY,
    STATE_KEY,
    IndexView,
    chunk_document,
    document_key,
    key,
    make_empty,
    schema,
    sizes_on_disk,
    state_document,
)
from pipeline.keyword_index.indexed_chunk_store import IndexedChunk, NamespaceState
from pipeline.records import DocumentId, Namespace, TenantId

DAMAGED = "damaged"  # marks the folder of an index that must be rebuilt
_WRITER_BYTES = 48_000_000  # tantivy's minimum is 15 MB a thread


def folder_of(root: Path, tenant_id: TenantId) -> Path:
    """Return the folder of a tenant's index, named by a hash so that every id makes a valid file name."""
    return root / f"format-{FORMAT}" / hashlib.blake2b(tenant_id.encode(), digest_size=16).hexdigest()


class LocalIndexReader:
    """A tenant's index, read by many threads of many processes. An unreadable index is not kept open."""

    def __init__(self, root: Path, tenant_id: TenantId) -> None:
        self._folder = folder_of(root, tenant_id)
        self._mark = self._folder / DAMAGED
        self._lock = threading.Lock()
        self._index: tantivy.Index | None = None
        self._version: tuple[int, int] = (0, 0)
        self._view: IndexView | None = None

    def view(self) -> IndexView | None:
        """Return the index at its last commit; None if there is none, or it is unreadable."""
        try:
            status = (self._folder / "meta.json").stat()
        except OSError:
            status = None
        if status is None or self._mark.exists():
            self._index = self._view = None
            return None
        version = (status.st_mtime_ns, status.st_ino)
        with self._lock:
            if self._view is None or version != self._version:
                self._view = self._opened()
                self._version = version
            return self._view

    def distrust(self) -> None:
        """Mark the index as damaged, so that it is not read until the indexer has rebuilt it."""
        with suppress(OSError):
            self._mark.touch()

    def _opened(self) -> IndexView | None:
        try:
            return self._at_last_commit()
        except IndexDamaged:  # perhaps another release's; the writer detects and repairs the damage
            self._index = None
            return None

    @readable
    def _at_last_commit(self) -> IndexView:
        if self._index is None:
            self._index = tantivy.Index.open(str(self._folder))
        self._index.reload()
        return IndexView(self._index, self._folder)


class LocalIndexWriter:
    """The one writer of a tenant's index. Changes become visible with `commit`. Raises IndexUnusable, and its subclass
    IndexDamaged."""

    def __init__(self, root: Path, tenant_id: TenantId) -> None:
        self._folder = folder_of(root, tenant_id)
        with writing(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            make_empty(self._folder)
            self._index = tantivy.Index(schema(), path=str(self._folder), reuse=True)
            self._writer = self._index.writer(heap_size=_WRITER_BYTES, num_threads=1)
            self._writer.garbage_collect_files()  # a writer killed within a commit leaves files whose names are reused
            self._index.reload()

    @property
    def view(self) -> IndexView:
        """The index as it was opened or last committed."""
        self._index.reload()
        return IndexView(self._index, self._folder)

    def clear(self) -> None:
        """Delete all documents of the index."""
        self._writer.delete_all_documents()

    def forget(self, namespace: Namespace) -> None:
        """Delete a namespace and its state."""
        self._writer.delete_documents_by_term(KEYS, key(NAMESPACE_KEY, namespace))

    def replace(
        self, state: NamespaceState, document_ids: Sequence[DocumentId] | None, chunks: Iterable[IndexedChunk]
    ) -> int:
        """Replace chunks of these documents (None: of all), and store the revision; return how many were added."""
        namespace = state.namespace
        if document_ids is None:
            self.forget(namespace)
        else:
            for document_id in document_ids:
                self._writer.delete_documents_by_term(KEYS, document_key(namespace, document_id))
            self._writer.delete_documents_by_term(KEYS, key(STATE_KEY, namespace))
        added = 0
        for chunk in chunks:
            with writing(self._folder):
                self._writer.add_document(chunk_document(chunk))
            added += 1
        with writing(self._folder):
            self._writer.add_document(state_document(state))
        return added

    def commit(self) -> None:
        """Make all changes durable and visible at once. Raises IndexUnusable, after which the index is as before."""
        with writing(self._folder):
            self._writer.commit()
            self._writer.garbage_collect_files()

    def close(self) -> None:
        """Wait for the merges under way, and release the lock; errors that were raised before are ignored."""
        with suppress(ValueError):
            self._writer.wait_merging_threads()

    def sizes(self) -> tuple[int, int]:
        """Return how many chunks are on disk, and how many of them are deleted."""
        return sizes_on_disk(self._folder)


def remove(root: Path, tenant_id: TenantId) -> None:
    """Delete a tenant's index. Readers that have it open see it until they open it again."""
    shutil.rmtree(folder_of(root, tenant_id), ignore_errors=True)


def is_whole(root: Path, tenant_id: TenantId) -> bool:
    """Return whether a tenant's index exists and is not marked as damaged."""
    folder = folder_of(root, tenant_id)
    return (folder / "meta.json").exists() and not (folder / DAMAGED).exists()


def remove_others(root: Path, tenant_ids: Iterable[TenantId]) -> int:
    """Delete the indexes of all other tenants and formats. Returns how many folders were deleted."""
    unneeded = set(root.glob("format-*/*")) - {folder_of(root, tenant_id) for tenant_id in tenant_ids}
    for folder in unneeded:
        shutil.rmtree(folder, ignore_errors=True)
    return len(unneeded)
