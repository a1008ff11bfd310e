"""What a tenant says of words, of its business APIs, and of experiments."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Unpack

from chordwise.decoding import Result, decode
from chordwise.options import QueryKeywords
from chordwise.queries import query_body
from chordwise.requesting import Requesting, entries, segment
from chordwise.results import Hit
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

    def dictionary(self, namespace: str | None) -> Steps[Dictionary]:
        """One dictionary."""
        return decode(Dictionary, (yield from self._request("GET", _WORDS, params={"namespace": namespace})).json())

    def store_dictionary(self, namespace: str | None, words: Mapping[str, Any]) -> Steps[Dictionary]:
        """Replace a dictionary."""
        answer = yield from self._request("PUT", _WORDS, body=words, params={"namespace": namespace})
        return decode(Dictionary, answer.json())

    def delete_dictionary(self, namespace: str | None) -> Steps[None]:
        """Forget a dictionary."""
        yield from self._request("DELETE", _WORDS, params={"namespace": namespace})

    def api_sources(self) -> Steps[list[ApiSource]]:
        """Every source."""
        return entries(ApiSource, (yield from self._request("GET", _SOURCES)).json(), _SOURCES)

    def api_source(self, name: str) -> Steps[ApiSource]:
        """One source."""
        return decode(ApiSource, (yield from self._request("GET", f"{_SOURCES}/{segment(name)}")).json())

    def store_api_source(self, name: str, source: Mapping[str, Any]) -> Steps[ApiSource]:
        """Add or change a source."""
        answer = yield from self._request("PUT", f"{_SOURCES}/{segment(name)}", body=dict(source))
        return decode(ApiSource, answer.json())

    def delete_api_source(self, name: str) -> Steps[None]:
        """Remove a source."""
        yield from self._request("DELETE", f"{_SOURCES}/{segment(name)}")

    def try_api_source(self, name: str, body: Mapping[str, Any]) -> Steps[TriedSource]:
        """Ask a source once."""
        answer = yield from self._request("POST", f"{_SOURCES}/{segment(name)}/test", body=body)
        return decode(TriedSource, answer.json())

    def experiments(self) -> Steps[list[Experiment]]:
        """Every experiment."""
        return entries(Experiment, (yield from self._request("GET", _EXPERIMENTS)).json(), _EXPERIMENTS)

    def store_experiment(self, experiment_id: str, experiment: Mapping[str, Any], active: bool) -> Steps[Experiment]:
        """Add or change an experiment."""
        body = {"experiment": dict(experiment), "active": active}
        answer = yield from self._request("PUT", f"{_EXPERIMENTS}/{segment(experiment_id)}", body=body)
        return decode(Experiment, answer.json())

    def delete_experiment(self, experiment_id: str) -> Steps[None]:
        """Remove an experiment."""
        yield from self._request("DELETE", f"{_EXPERIMENTS}/{segment(experiment_id)}")


_WORDS = "/v1/dictionary"
_SOURCES = "/v1/api-sources"
_EXPERIMENTS = "/v1/experiments"


class ConfigureMethods:
    """The methods of ``Chordwise`` for what a tenant sets up."""

    _operations: ConfigureOperations
    _run: Callable[[Steps[Any]], Any]

    def dictionary(self, *, namespace: str | None = None) -> Dictionary:
        """The words of a namespace, or those of all namespaces; ProblemError with status 404 if there are none."""
        found: Dictionary = self._run(self._operations.dictionary(namespace))
        return found

    def store_dictionary(
        self,
        *,
        namespace: str | None = None,
        synonyms: Iterable[Iterable[str]] = (),
        stop_words: Iterable[str] = (),
        phrases: Iterable[str] = (),
        rules: Iterable[Mapping[str, Any]] = (),
    ) -> Dictionary:
        """Replace the words of a namespace, or those of all: what is not said again is forgotten."""
        words = _words(synonyms, stop_words, phrases, rules)
        found: Dictionary = self._run(self._operations.store_dictionary(namespace, words))
        return found

    def delete_dictionary(self, *, namespace: str | None = None) -> None:
        """Forget the words of a namespace, or those of all."""
        self._run(self._operations.delete_dictionary(namespace))

    def api_sources(self) -> list[ApiSource]:
        """Every business API that queries may ask."""
        return list(self._run(self._operations.api_sources()))

    def api_source(self, name: str) -> ApiSource:
        """One business API, without the values of its headers."""
        found: ApiSource = self._run(self._operations.api_source(name))
        return found

    def store_api_source(self, name: str, source: Mapping[str, Any]) -> ApiSource:
        """Add or change a business API: ``url``, ``mapping`` and more, see docs/channels.md."""
        found: ApiSource = self._run(self._operations.store_api_source(name, source))
        return found

    def delete_api_source(self, name: str) -> None:
        """Remove a business API; queries that name it go on without it, and say so."""
        self._run(self._operations.delete_api_source(name))

    def try_api_source(self, name: str, text: str, **options: Unpack[QueryKeywords]) -> TriedSource:
        """Ask a business API now, as this query would. That it failed is an answer, not an error."""
        found: TriedSource = self._run(self._operations.try_api_source(name, query_body(text, **options)))
        return found

    def experiments(self) -> list[Experiment]:
        """Every experiment."""
        return list(self._run(self._operations.experiments()))

    def store_experiment(self, experiment_id: str, experiment: Mapping[str, Any], *, active: bool = True) -> Experiment:
        """Add or change an experiment: ``arms`` and ``coverage``, see docs/profiles.md."""
        found: Experiment = self._run(self._operations.store_experiment(experiment_id, experiment, active))
        return found

    def delete_experiment(self, experiment_id: str) -> None:
        """Remove an experiment; queries that name it are asked as if there were none."""
        self._run(self._operations.delete_experiment(experiment_id))


class AsyncConfigureMethods:
    """The methods of ``AsyncChordwise`` for what a tenant sets up."""

    _operations: ConfigureOperations
    _run: Callable[[Steps[Any]], Coroutine[Any, Any, Any]]

    async def dictionary(self, *, namespace: str | None = None) -> Dictionary:
        """See ``Chordwise.dictionary``."""
        found: Dictionary = await self._run(self._operations.dictionary(namespace))
        return found

    async def store_dictionary(
        self,
        *,
        namespace: str | None = None,
        synonyms: Iterable[Iterable[str]] = (),
        stop_words: Iterable[str] = (),
        phrases: Iterable[str] = (),
        rules: Iterable[Mapping[str, Any]] = (),
    ) -> Dictionary:
        """See ``Chordwise.store_dictionary``."""
        words = _words(synonyms, stop_words, phrases, rules)
        found: Dictionary = await self._run(self._operations.store_dictionary(namespace, words))
        return found

    async def delete_dictionary(self, *, namespace: str | None = None) -> None:
        """See ``Chordwise.delete_dictionary``."""
        await self._run(self._operations.delete_dictionary(namespace))

    async def api_sources(self) -> list[ApiSource]:
        """See ``Chordwise.api_sources``."""
        return list(await self._run(self._operations.api_sources()))

    async def api_source(self, name: str) -> ApiSource:
        """See ``Chordwise.api_source``."""
        found: ApiSource = await self._run(self._operations.api_source(name))
        return found

    async def store_api_source(self, name: str, source: Mapping[str, Any]) -> ApiSource:
        """See ``Chordwise.store_api_source``."""
        found: ApiSource = await self._run(self._operations.store_api_source(name, source))
        return found

    async def delete_api_source(self, name: str) -> None:
        """See ``Chordwise.delete_api_source``."""
        await self._run(self._operations.delete_api_source(name))

    async def try_api_source(self, name: str, text: str, **options: Unpack[QueryKeywords]) -> TriedSource:
        """See ``Chordwise.try_api_source``."""
        found: TriedSource = await self._run(self._operations.try_api_source(name, query_body(text, **options)))
        return found

    async def experiments(self) -> list[Experiment]:
        """See ``Chordwise.experiments``."""
        return list(await self._run(self._operations.experiments()))

    async def store_experiment(
        self, experiment_id: str, experiment: Mapping[str, Any], *, active: bool = True
    ) -> Experiment:
        """See ``Chordwise.store_experiment``."""
        found: Experiment = await self._run(self._operations.store_experiment(experiment_id, experiment, active))
        return found

    async def delete_experiment(self, experiment_id: str) -> None:
        """See ``Chordwise.delete_experiment``."""
        await self._run(self._operations.delete_experiment(experiment_id))


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
