"""Dictionaries of a tenant's words."""

from dataclasses import dataclass

from chordwise.contract.record import Answered


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOut(Answered):
    """One rule."""

    when: str
    document_id: str
    namespace: str
    boost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DictionaryOut(Answered):
    """A stored dictionary. `namespace` is null for the one that applies to all of them. `synonyms` are groups of expressions
    that mean the same."""

    namespace: str | None
    version: int
    synonyms: tuple[tuple[str, ...], ...]
    stop_words: tuple[str, ...]
    phrases: tuple[str, ...]
    rules: tuple[RuleOut, ...]
