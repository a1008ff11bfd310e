"""Dictionaries: synonyms, stop words, phrases and rules of a namespace or of all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chordwise.contract import dictionary
from chordwise.records import decode
from chordwise.resource import Resource, operation
from chordwise.transport import Steps

_PATH = "/v1/dictionary"


Dictionary = dictionary.DictionaryOut


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
    def extend_dictionary(
        self,
        *,
        namespace: str | None = None,
        synonyms: Iterable[Iterable[str]] = (),
        stop_words: Iterable[str] = (),
        phrases: Iterable[str] = (),
    ) -> Steps[Dictionary]:
        """Add words to those of a namespace, or to those of all namespaces; words of other writers are kept, too."""
        groups, stops, expressions = [list(group) for group in synonyms], list(stop_words), list(phrases)
        params = {"namespace": namespace}
        while True:
            answer = yield from self._request("GET", _PATH, params=params, expects=frozenset({404}))
            known = answer.status != 404
            there = {"synonyms": [], "stop_words": [], "phrases": [], "rules": []} | (answer.json() if known else {})
            body = {
                "synonyms": [*there["synonyms"], *(group for group in groups if group not in there["synonyms"])],
                "stop_words": list(dict.fromkeys((*there["stop_words"], *stops))),
                "phrases": list(dict.fromkeys((*there["phrases"], *expressions))),
                "rules": there["rules"],
            }
            headers = {"If-Match": answer.headers["etag"]} if known else {"If-None-Match": "*"}
            written = yield from self._request(
                "PUT", _PATH, body=body, params=params, headers=headers, expects=frozenset({412})
            )
            if written.status != 412:  # else somebody else wrote in between
                return decode(Dictionary, written.json())

    @operation
    def delete_dictionary(self, *, namespace: str | None = None) -> Steps[None]:
        """Delete the words of a namespace, or those of all namespaces."""
        return self._delete(_PATH, params={"namespace": namespace})
