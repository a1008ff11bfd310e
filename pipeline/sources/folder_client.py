"""Read a folder of this host, below one that the operator allows. Links lead nowhere else, and are not followed to folders."""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pipeline.errors import FetchFailed, FetchRefused
from pipeline.sources.entry import Entry, is_utf_8

_NO_UTF_8 = "its name is not UTF-8"


class FolderReader:
    """The files below a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def entries(self) -> Iterator[Entry]:
        """Yield every file, folder by folder. A folder that cannot be read is reported; the first one is an error."""
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            try:
                with os.scandir(self._root / folder) as found:
                    for each in found:
                        path = f"{folder}{each.name}"
                        if not is_utf_8(each.name):
                            yield Entry(
                                path=_readable(path), skipped=_NO_UTF_8, hides=each.is_dir(follow_symlinks=False)
                            )
                        elif each.is_dir(follow_symlinks=False):
                            waiting.append(f"{path}/")
                        else:
                            yield self._entry(path)
            except OSError as error:
                if not folder:
                    raise FetchFailed(f"the folder cannot be read: {error.strerror}") from None
                yield Entry(path=folder, skipped=f"the folder cannot be read: {error.strerror}", hides=True)

    def _entry(self, path: str) -> Entry:
        try:
            real = os.path.realpath(self._root / path)
            state = os.stat(real)
        except OSError as error:
            return Entry(path=path, skipped=f"it cannot be read: {error.strerror}")
        if not Path(real).is_relative_to(self._root):
            return Entry(path=path, skipped="it is a link that leads out of the folder")
        if not stat.S_ISREG(state.st_mode):
            return Entry(path=path, skipped="it is no file")
        return Entry(path=path, version=f"{state.st_mtime_ns}-{state.st_size}-{state.st_ino}", size=state.st_size)

    def read(self, path: str, most_bytes: int) -> bytes:
        """Return the content. The file that was opened has to lie below the folder, whatever its name leads to by now."""
        try:
            number = os.open(self._root / path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise FetchFailed(f"it cannot be read: {error.strerror}") from None
        with os.fdopen(number, "rb") as file:
            opened = Path(os.readlink(f"/proc/self/fd/{number}"))
            if not opened.is_relative_to(self._root) or not stat.S_ISREG(os.fstat(number).st_mode):
                raise FetchRefused("it is a link that leads out of the folder")
            return file.read(most_bytes + 1)


def open_folder(url: str, _secret: Mapping[str, str], *, allowed: Sequence[Path]) -> FolderReader:
    """Return the reader of ``file:///folder``. Raises FetchRefused if it is not below an allowed folder, whether it exists
    or not."""
    root = folder_of(url)
    if root is None or not any(root.is_relative_to(folder.resolve()) for folder in allowed):
        raise FetchRefused("the folder is not below one that CHORDWISE_FETCH_ALLOW_NETWORKS names")
    return FolderReader(root)


def folder_of(url: str) -> Path | None:
    """Return the folder that a ``file`` URL names, without links; None for another host's."""
    parts = urlsplit(url)
    return Path(unquote(parts.path)).resolve() if parts.netloc in ("", "localhost") and parts.path else None


def _readable(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "backslashreplace")
