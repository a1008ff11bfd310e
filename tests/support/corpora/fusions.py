"""A package with fusions of somebody else's, as an installer leaves it behind."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.retrieval.fuse import installed_fusions

_CODE = """
import time


def best_of(rankings, *, weights, completed):
    found = {}
    for ranking in rankings:
        top = max(ranking.scores, default=1.0) or 1.0
        for chunk_id, score in zip(ranking.chunk_ids, ranking.scores):
            found[chunk_id] = max(found.get(chunk_id, 0.0), max(0.0, score / top) * weights[ranking.channel])
    return found


def last_first(rankings, *, weights, completed):
    return {chunk_id: float(place) for ranking in rankings for place, chunk_id in enumerate(ranking.chunk_ids)}


def nothing(rankings, *, weights, completed):
    return {}


def broken(rankings, *, weights, completed):
    raise RuntimeError("no")


def inventor(rankings, *, weights, completed):
    return {"not there": 1.0}


def asleep(rankings, *, weights, completed):
    time.sleep(5.0)
    return {}


NOT_ONE = 5
"""
_ENTRY_POINTS = """[chordwise.fusion]
best_of = strange_fusions:best_of
last_first = strange_fusions:last_first
nothing = strange_fusions:nothing
broken = strange_fusions:broken
inventor = strange_fusions:inventor
asleep = strange_fusions:asleep
not_one = strange_fusions:NOT_ONE
missing = strange_fusions:NOWHERE
"""


@contextmanager
def installed_package(folder: Path) -> Iterator[None]:
    """The package is installed for as long as the block runs."""
    (folder / "strange_fusions.py").write_text(_CODE)
    about = folder / "strange_fusions-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: strange-fusions\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(_ENTRY_POINTS)
    sys.path.insert(0, str(folder))
    _forget()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop("strange_fusions", None)
        _forget()


def _forget() -> None:
    installed_fusions.cache_clear()
