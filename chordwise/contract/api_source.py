"""Trials of API sources."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chordwise.contract.record import Answered


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedPassage(Answered):
    """A passage as a query would get it."""

    chunk_id: str
    document_id: str
    namespace: str
    title: str | None
    text: str
    metadata: Mapping[str, Any]
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedSource(Answered):
    """The outcome of a test call. `left_out`: number of rejected items, by reason. `code` and `detail`: the error; null
    if the source answered."""

    ok: bool
    code: str | None
    detail: str | None
    elapsed_ms: float
    passages: tuple[TriedPassage, ...]
    left_out: Mapping[str, int]
