"""Errors of a local index, translated from those of tantivy."""

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

from pipeline.errors import StoreUnavailable

P = ParamSpec("P")
T = TypeVar("T")


class IndexUnusable(StoreUnavailable):
    """A local index cannot be written: its disk is full, or it is read-only."""

    code = "keyword_index_unusable"


class IndexDamaged(IndexUnusable):
    """A local index is corrupt or of another release: it must be rebuilt."""

    code = "keyword_index_damaged"


# Errors of the environment: permission, open files, size of a file, room, read-only, quota, another writer.
_OF_THE_SURROUNDINGS = re.compile(r"(code: |os error |Errno )(1|13|24|27|28|30|122)\b|LockBusy")


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Translate errors of writing into IndexUnusable, or IndexDamaged."""
    try:
        yield
    except (ValueError, OSError) as error:
        kind = IndexUnusable if _OF_THE_SURROUNDINGS.search(str(error)) else IndexDamaged
        raise kind(f"the keyword index in {folder} cannot be written: {error}") from error


def readable(method: Callable[P, T]) -> Callable[P, T]:
    """Raise IndexDamaged for tantivy's errors and panics over unexpected file contents."""

    @functools.wraps(method)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except (ValueError, OSError) as error:
            raise IndexDamaged(f"a keyword index cannot be read: {error}") from error
        except BaseException as error:
            if type(error).__name__ == "PanicException":  # from pyo3, which exports it nowhere
                raise IndexDamaged("a keyword index cannot be read: tantivy panicked") from error
            raise

    return guarded
