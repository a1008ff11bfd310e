"""The listing of a source, in a file of SQLite while its run lasts: a million files need no memory."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from pipeline.records import DocumentId

_PAGE: Final = 500


# The path of a file that differs from its document, or has none; its version, None until its content is read; the version that
# the document has, empty if none is known, None without a document.
ListedFile = tuple[str, bytes | None, bytes | None]


class Listing:
    """The files of one run by the ids of their documents, and the documents that are gone."""

    def __init__(self) -> None:
        # A file without a name, as SQLite's "" is, is gone with its process, however that ends.
        self._db = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        for statement in ("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", _FILES, _GONE, "BEGIN"):
            self._db.execute(statement)
        self.listed = self.unchanged = 0

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def add(self, document_id: DocumentId, path: str, version: bytes | None) -> bool:
        """Add a file. False if another file has the same id."""
        added = self._db.execute(_ADD, (document_id, path, version)).rowcount == 1
        self.listed += added
        return added

    def compare(self, known: Mapping[DocumentId, bytes | None]) -> None:
        """Compare some documents of the source, with the versions of their files, with what is listed."""
        places = ",".join("?" * len(known))
        listed = dict(self._db.execute(f"SELECT id, version FROM files WHERE id IN ({places})", list(known)))
        gone = [(document_id,) for document_id in known if document_id not in listed]
        same = [(document_id,) for document_id, version in listed.items() if version and version == known[document_id]]
        self._db.executemany("INSERT INTO gone (id) VALUES (?)", gone)
        self._db.executemany("DELETE FROM files WHERE id = ?", same)
        changed = [(known[document_id] or b"", document_id) for document_id in listed]
        self._db.executemany("UPDATE files SET known = ? WHERE id = ?", changed)
        self.unchanged += len(same)

    def different(self) -> Iterator[Sequence[ListedFile]]:
        """Yield the files that are left, by path."""
        path = ""
        while rows := self._db.execute(_LEFT, (path, _PAGE)).fetchall():
            path = rows[-1][0]
            yield rows

    def count_gone(self) -> int:
        """Return how many documents are gone from the source."""
        return int(self._db.execute("SELECT COUNT(*) FROM gone").fetchone()[0])

    def gone(self, limit: int) -> Iterator[list[DocumentId]]:
        """Yield the documents that are gone, ``limit`` at a time."""
        last = ""
        while ids := [row[0] for row in self._db.execute(_IDS_GONE, (last, limit))]:
            last = ids[-1]
            yield ids

    def drop(self, document_ids: Iterable[DocumentId]) -> None:
        """Count documents as gone whose files cannot become documents any more."""
        self._db.executemany("INSERT OR IGNORE INTO gone (id) VALUES (?)", [(each,) for each in document_ids])


_FILES = "CREATE TABLE files (id TEXT PRIMARY KEY, path TEXT NOT NULL UNIQUE, version BLOB, known BLOB) WITHOUT ROWID"
_GONE = "CREATE TABLE gone (id TEXT PRIMARY KEY) WITHOUT ROWID"
_ADD = "INSERT OR IGNORE INTO files (id, path, version) VALUES (?, ?, ?)"
_LEFT = "SELECT path, version, known FROM files WHERE path > ? ORDER BY path LIMIT ?"
_IDS_GONE = "SELECT id FROM gone WHERE id > ? ORDER BY id LIMIT ?"
