"""What a tenant says of words, of its business APIs, and of experiments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Unpack

from chordwise.api.options import QueryKeywords
from chordwise.api.query_body import query_body
from chordwise.api.results import Hit
from chordwise.records import Result
from chordwise.resource import Requesting, segment
from chordwise.transport import Steps


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSource(Result):
    """A business API that queries may ask. The values of ``headers`` are never shown; ``raw`` may be changed and stored."""

    name: str
    url: str = ""
    method: str = "GET"
    enabled: bool = True
    namespaces: tuple[str, ...] = ()
    headers: Mapping[str, Any] = field(default_factory=dict)
    mapping: Mapping[str, Any] = field(default_factory=dict)
    timeout_ms: int | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedSource(Result):
    """What came of asking an API source once; ``code`` and ``detail`` say why there is nothing."""

    ok: bool
    code: str | None = None
    detail: str | None = None
    elapsed_ms: float = 0.0
    passages: tuple[Hit, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment(Result):
    """Arms of retrieval that are compared on real queries: ``experiment`` has them, and ``coverage``."""

    experiment_id: str
    active: bool = False
    experiment: Mapping[str, Any] = field(default_factory=dict)


class ConfigureOperations(Requesting):
    """The part of ``Operations`` for what a tenant sets up. Every call may be sent twice."""

    def dictionary(self, *, namespace: str | None = None) -> Steps[Dictionary]:
        """The words of a namespace, or those of all namespaces; ProblemError with status 404 if there are none."""
        return self._one(Dictionary, "GET", _WORDS, params={"namespace": namespace})

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

    def delete_dictionary(self, *, namespace: str | None = None) -> Steps[None]:
        """Forget the words of a namespace, or those of all."""
        yield from self._request("DELETE", _WORDS, params={"namespace": namespace})

    def api_sources(self) -> Steps[list[ApiSource]]:
        """Every business API that queries may ask."""
        return self._list(ApiSource, _SOURCES)

    def api_source(self, name: str) -> Steps[ApiSource]:
        """One business API, without the values of its headers."""
        return self._one(ApiSource, "GET", f"{_SOURCES}/{segment(name)}")

    def store_api_source(self, name: str, source: Mapping[str, Any]) -> Steps[ApiSource]:
        """Add or change a business API: ``url``, ``mapping`` and more, see docs/channels.md."""
        return self._one(ApiSource, "PUT", f"{_SOURCES}/{segment(name)}", body=dict(source))

    def delete_api_source(self, name: str) -> Steps[None]:
        """Remove a business API; queries that name it go on without it, and say so."""
        yield from self._request("DELETE", f"{_SOURCES}/{segment(name)}")

    def try_api_source(self, name: str, text: str, **options: Unpack[QueryKeywords]) -> Steps[TriedSource]:
        """Ask a business API now, as this query would. That it failed is an answer, not an error."""
        body = query_body(text, **options)
        return self._one(TriedSource, "POST", f"{_SOURCES}/{segment(name)}/test", body=body)

    def experiments(self) -> Steps[list[Experiment]]:
        """Every experiment."""
        return self._list(Experiment, _EXPERIMENTS)

    def store_experiment(
        self, experiment_id: str, experiment: Mapping[str, Any], *, active: bool = True
    ) -> Steps[Experiment]:
        """Add or change an experiment: ``arms`` and ``coverage``, see docs/profiles.md."""
        body = {"experiment": dict(experiment), "active": active}
        return self._one(Experiment, "PUT", f"{_EXPERIMENTS}/{segment(experiment_id)}", body=body)

    def delete_experiment(self, experiment_id: str) -> Steps[None]:
        """Remove an experiment; queries that name it are asked as if there were none."""
        yield from self._request("DELETE", f"{_EXPERIMENTS}/{segment(experiment_id)}")


_WORDS = "/v1/dictionary"
_SOURCES = "/v1/api-sources"
_EXPERIMENTS = "/v1/experiments"


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
