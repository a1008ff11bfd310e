"""The contract between a run and the readers of stores, those of installed packages too (docs/sources.md)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

GROUP: Final = "chordwise.sources"  # of entry points: the scheme of URLs, and the function that opens a reader
MOST_FILES: Final = 1_000_000  # of one source


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file of a source by its path from the source's root, with ``/`` between folders. ``version`` changes with the
    content, such as an etag; None: the content has to be read. ``skipped``: the reason why it is no document. ``hides``:
    what cannot be read may hold further files, so that nothing counts as gone."""

    path: str
    version: str | None = None
    size: int | None = None
    skipped: str = ""
    hides: bool = False


class SourceReader(Protocol):
    """Reads one source. It is made anew for each run by ``open(url, secret)``, in a process of its own."""

    def entries(self) -> Iterator[Entry]:
        """Yield every file, in any order, without holding them all. Raises FetchRefused, FetchFailed, FetchUnavailable."""
        ...

    def read(self, path: str, most_bytes: int) -> bytes:
        """Return the content of a file, or more than ``most_bytes`` of it. Raises as `entries`; FileNotFoundError if it
        is gone."""
        ...


def is_utf_8(name: str) -> bool:
    """Return whether a name can be an id: names of other encodings hold surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
