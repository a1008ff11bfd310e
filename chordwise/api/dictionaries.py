"""Dictionaries: synonyms, stop words, phrases and rules of a namespace or of all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from chordwise.records import Result
from chordwise.resource import Resource, operation
from chordwise.transport import Steps

_PATH = "/v1/dictionary"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dictionary(Result):
    """Words of one namespace, or of all where ``namespace`` is None. ``synonyms`` are groups of expressions that mean the
    same; each of ``rules`` has ``when``, ``document_id``, ``namespace`` and ``boost``."""

    namespace: str | None = None
    version: int = 0
    synonyms: tuple[Any, ...] = ()
    stop_words: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    rules: tuple[Any, ...] = ()


class DictionaryOperations(Resource):
    """Operations on dictionaries. Every call may be sent twice."""

    @operation
    def dictionary(self, *, namespace: str | None = None) -> Steps[Dictionary]:
        """Return the words of a namespace, or those of all namespaces. ProblemError with status 404 if there are none."""
        return self._one(Dictionary, "GET", _PATH, params={"namespace": namespace})

    @operation
    def store_dictionary(
        self,
        *,
        namespace: str | None = None,
        synonyms: Iterable[Iterable[str]] = (),
        stop_words: Iterable[str] = (),
        phrases: Iterable[str] = (),
        rules: Iterable[Mapping[str, Any]] = (),
    ) -> Steps[Dictionary]:
        """Replace all words of a namespace, or those of all namespaces; omitted lists become empty."""
        words = {
            "synonyms": [list(group) for group in synonyms],
            "stop_words": list(stop_words),
            "phrases": list(phrases),
            "rules": [dict(rule) for rule in rules],
        }
        return self._one(Dictionary, "PUT", _PATH, body=words, params={"namespace": namespace})

    @operation
    def delete_dictionary(self, *, namespace: str | None = None) -> Steps[None]:
        """Delete the words of a namespace, or those of all namespaces."""
        return self._delete(_PATH, params={"namespace": namespace})
