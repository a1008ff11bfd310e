"""Dictionaries: synonyms, stop words, phrases and rules of a namespace or of all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from chordwise.records import Result
from chordwise.resource import Resource, operation
from chordwise.transport import Steps

_WORDS = "/v1/dictionary"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dictionary(Result):
    """Words of one namespace, or of all where ``namespace`` is None. ``synonyms`` are groups of expressions that mean the
    same; each of ``rules`` says ``when``, ``document_id``, ``namespace`` and ``boost``."""

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
        """The words of a namespace, or those of all namespaces; ProblemError with status 404 if there are none."""
        return self._one(Dictionary, "GET", _WORDS, params={"namespace": namespace})

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
        """Replace the words of a namespace, or those of all: what is not said again is forgotten."""
        words = _words(synonyms, stop_words, phrases, rules)
        return self._one(Dictionary, "PUT", _WORDS, body=words, params={"namespace": namespace})

    @operation
    def delete_dictionary(self, *, namespace: str | None = None) -> Steps[None]:
        """Forget the words of a namespace, or those of all."""
        yield from self._request("DELETE", _WORDS, params={"namespace": namespace})


def _words(
    synonyms: Iterable[Iterable[str]],
    stop_words: Iterable[str],
    phrases: Iterable[str],
    rules: Iterable[Mapping[str, Any]],
) -> dict[str, Any]:
    return {
        "synonyms": [list(group) for group in synonyms],
        "stop_words": list(stop_words),
        "phrases": list(phrases),
        "rules": [dict(rule) for rule in rules],
    }
