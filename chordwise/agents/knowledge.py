"""The knowledge that a team or an agent is bound to: namespaces, retrieval settings, filters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Self

from chordwise.agents.asker import listed
from chordwise.api.queries import AskKeywords
from chordwise.contract.document import COMPARED
from chordwise.errors import InvalidInput

_FOR_A_SEARCH: Final = ("top_k", "method", "score_threshold", "rerank")
_METHODS: Final = ("hybrid", "full_text", "semantic")
_OF_THE_INSTALLATION: Final = {
    "embedding": "embedding is not taken: every namespace of an installation has the model of CHORDWISE_EMBEDDING_MODEL,"
    " and chordwise models moves it to another",
    "vector_store": "vector_store is not taken: vectors are in the PostgreSQL of CHORDWISE_POSTGRES_URL, for all namespaces",
    "tuning": "retrieve.tuning is not taken: the installation measures what its vector indexes find and sets them itself,"
    " for tenants with more than 5,000 chunks",
}
_MOST: Final = 50  # passages that a model may request, to protect its context


class Knowledge:
    """Namespaces with the retrieval settings and filters that hold for every search in them.

    ``retrieve`` has ``top_k``, ``method``, ``score_threshold``, ``rerank`` and any other field of ``retrieve`` of a query.
    A search may choose ``top_k``, ``method``, ``score_threshold`` and ``rerank`` itself, but nothing else, because other
    options could reach other namespaces. ``retrieve`` may have ``quality`` too, which is ``selection.quality`` of a query;
    true for its defaults. ``filters`` are those of a query; a search may add to them, but not change them.

    ``embedding``, ``vector_store`` and ``tuning`` in ``retrieve`` are settings of the installation: InvalidInput names the
    setting that decides. Raises InvalidInput too without a namespace.
    """

    def __init__(
        self,
        namespaces: Iterable[str] | str,
        *,
        retrieve: Mapping[str, Any] | None = None,
        filters: Mapping[str, Any] | None = None,
        profile: str | None = None,
        embedding: object = None,
        vector_store: object = None,
    ) -> None:
        for name, value in (("embedding", embedding), ("vector_store", vector_store)):
            if value is not None:
                raise InvalidInput(_OF_THE_INSTALLATION[name])
        self.namespaces = listed(namespaces)
        self.retrieve, self.filters = _bound(retrieve or {}), dict(filters or {})
        self.profile = profile

    def within(self, namespaces: Iterable[str] | str) -> Self:
        """Return the same knowledge restricted to some of its namespaces, for one agent of a team. Raises InvalidInput for
        a namespace that is not bound."""
        return type(self)(self._chosen(namespaces), retrieve=self.retrieve, filters=self.filters, profile=self.profile)

    def asked(self, query: object, namespaces: object, retrieve: object, filters: object) -> AskKeywords:
        """Return the query options of a search. Raises InvalidInput for invalid arguments."""
        if not isinstance(query, str) or not query.strip():
            raise InvalidInput("query must be a text that is not empty")
        settings = {**self.retrieve, **_for_a_search(_mapping("retrieve", retrieve))}
        top_k, rerank = settings.pop("top_k", None), settings.pop("rerank", None)
        options = AskKeywords(
            namespaces=self._chosen(namespaces),
            top_k=top_k,
            rerank=rerank if isinstance(rerank, bool) else None,
            retrieve=settings or None,
            filters=_narrowed(self.filters, _mapping("filters", filters)) or None,
            profile=self.profile,
        )
        if isinstance(rerank, Mapping):
            options["extra"] = {"rerank": dict(rerank)}
        return options

    def _chosen(self, namespaces: object) -> tuple[str, ...]:
        if not namespaces:
            return self.namespaces
        if not isinstance(namespaces, str | Iterable):
            raise InvalidInput("namespaces must be a list of names")
        chosen = listed(namespaces)
        if others := [name for name in chosen if name not in self.namespaces]:
            raise InvalidInput(f"{', '.join(others)} cannot be searched here, only {', '.join(self.namespaces)}")
        return chosen


def tool_schema(knowledge: Knowledge) -> dict[str, Any]:
    """Return the arguments of a search as a JSON schema, with ``namespaces`` only if there are several."""
    several = {
        "namespaces": {
            "type": "array",
            "items": {"type": "string", "enum": list(knowledge.namespaces)},
            "description": "Search only these; leave it out for all.",
        }
    }
    return {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for, as a question or keywords."},
            **(several if len(knowledge.namespaces) > 1 else {}),
            "retrieve": {
                "type": "object",
                "description": "How to search; leave it out unless the first search did not help.",
                "properties": {
                    "top_k": {"type": "integer", "minimum": 1, "maximum": _MOST},
                    "method": {"type": "string", "enum": list(_METHODS)},
                    "score_threshold": {"type": "number", "minimum": 0, "maximum": 1},
                    "rerank": {"type": "boolean"},
                },
                "additionalProperties": False,
            },
            "filters": {
                "type": "object",
                "description": "What the documents must be like.",
                "properties": {
                    **{name: {"type": "string"} for name in COMPARED},
                    "tags": {"type": "array", "items": {"type": "string"}, "description": "All of them."},
                    "start": {"type": "string", "description": "Published at or after, RFC 3339."},
                    "end": {"type": "string", "description": "Published at or before, RFC 3339."},
                    "metadata": {"type": "object"},
                },
                "additionalProperties": False,
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    }


def _bound(retrieve: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of retrieval under the names of a query. Raises InvalidInput."""
    settings = dict(retrieve)
    if settings.pop("tuning", None) is not None:
        raise InvalidInput(_OF_THE_INSTALLATION["tuning"])
    quality = settings.pop("quality", None)
    if quality in (None, False):
        return settings
    if quality is not True and not isinstance(quality, Mapping):
        raise InvalidInput("retrieve.quality must be an object, or true for its defaults")
    selection = _mapping("retrieve.selection", settings.get("selection"))
    if "quality" in selection:
        raise InvalidInput("retrieve.quality is given twice: it is retrieve.selection.quality")
    return {**settings, "selection": {**selection, "quality": {} if quality is True else dict(quality)}}


def _mapping(name: str, value: object) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{name} must be an object")
    return {str(key): item for key, item in value.items() if item is not None}


def _for_a_search(settings: dict[str, Any]) -> dict[str, Any]:
    """Check the ``retrieve`` of a search: options of a channel could name other namespaces. Raises InvalidInput."""
    if others := [name for name in settings if name not in _FOR_A_SEARCH]:
        raise InvalidInput(f"retrieve takes no {', '.join(others)} here, only {', '.join(_FOR_A_SEARCH)}")
    if not isinstance(settings.get("rerank", False), bool):
        raise InvalidInput("rerank must be true or false")
    return settings


def _narrowed(bound: Mapping[str, Any], added: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two filters: ``tags`` and keys of ``metadata`` are united, for any other field the bound value wins."""
    both = {**added, **bound}
    if "tags" in bound and "tags" in added:
        tags = _tags(bound["tags"])
        both["tags"] = [*tags, *(tag for tag in _tags(added["tags"]) if tag not in tags)]
    if isinstance(bound.get("metadata"), Mapping) and isinstance(added.get("metadata"), Mapping):
        both["metadata"] = {**added["metadata"], **bound["metadata"]}
    return both


def _tags(value: Any) -> list[Any]:
    return [value] if isinstance(value, str) else list(value) if isinstance(value, Iterable) else [value]
