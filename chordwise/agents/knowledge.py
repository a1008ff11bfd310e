"""What a team or an agent is bound to: namespaces, how they are searched, and what of them may be seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Self

from chordwise.agents.asker import listed
from chordwise.api.queries import AskKeywords
from chordwise.errors import InvalidInput

_FOR_A_SEARCH: Final = ("top_k", "method", "score_threshold", "rerank")
_METHODS: Final = ("hybrid", "full_text", "semantic")
_OF_THE_INSTALLATION: Final = {
    "embedding": "embedding is not taken: every namespace of an installation has the model of CHORDWISE_EMBEDDING_MODEL,"
    " and chordwise models moves it to another",
    "vector_store": "vector_store is not taken: vectors are in the PostgreSQL of CHORDWISE_POSTGRES_URL, for all namespaces",
    "tuning": "retrieve.tuning is not taken: the installation measures what its vector indexes find and sets them itself,"
    " beyond CHORDWISE_SEMANTIC_EXACT_CHUNKS",
}
_MOST: Final = 50  # passages that a model may ask for: its context is not endless


class Knowledge:
    """Namespaces with the retrieval settings and filters that hold for every search in them.

    ``retrieve`` has ``top_k``, ``method``, ``score_threshold``, ``rerank`` and what else ``retrieve`` of a query may hold;
    a search may ask for another ``top_k``, ``method`` or ``score_threshold``, and have ``rerank`` or not; the rest stays,
    for it could lead out of the namespaces. ``retrieve`` may have ``quality`` too, which is ``selection.quality`` of a query;
    true for its defaults. ``filters`` are those of a query; a search may add to them, and not change them.

    ``embedding``, ``vector_store`` and ``tuning`` in ``retrieve`` are the installation's to choose. Raises InvalidInput for
    them, with the setting that decides, and without a namespace.
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
        """The same over some of its namespaces: an agent's share of what its team is bound to. Raises InvalidInput for
        one that is not bound."""
        return type(self)(self._chosen(namespaces), retrieve=self.retrieve, filters=self.filters, profile=self.profile)

    def asked(self, query: object, namespaces: object, retrieve: object, filters: object) -> AskKeywords:
        """What a search asks the client for. Raises InvalidInput for arguments that are none."""
        if not isinstance(query, str) or not query.strip():
            raise InvalidInput("query must say what is looked for")
        settings = {**self.retrieve, **_for_a_search(_mapping("retrieve", retrieve))}
        top_k, rerank = settings.pop("top_k", None), settings.pop("rerank", None)
        wanted = AskKeywords(
            namespaces=self._chosen(namespaces),
            top_k=top_k,
            rerank=rerank if isinstance(rerank, bool) else None,
            retrieve=settings or None,
            filters=_narrowed(self.filters, _mapping("filters", filters)) or None,
            profile=self.profile,
        )
        if isinstance(rerank, Mapping):
            wanted["extra"] = {"rerank": dict(rerank)}
        return wanted

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
    """The arguments of a search as a JSON schema; ``namespaces`` is among them only where there is a choice."""
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
                    "type": {"type": "string"},
                    "tags": {"type": "array", "items": {"type": "string"}, "description": "All of them."},
                    "author": {"type": "string"},
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
    return {str(key): each for key, each in value.items() if each is not None}


def _for_a_search(asked: dict[str, Any]) -> dict[str, Any]:
    """What a search may ask for of ``retrieve``: the options of a channel can name other namespaces. Raises InvalidInput."""
    if others := [name for name in asked if name not in _FOR_A_SEARCH]:
        raise InvalidInput(f"retrieve takes no {', '.join(others)} here, only {', '.join(_FOR_A_SEARCH)}")
    if not isinstance(asked.get("rerank", False), bool):
        raise InvalidInput("rerank must be true or false")
    return asked


def _narrowed(bound: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Both, where they do not concern the same; of ``tags``, and of keys of ``metadata``, all; else what is bound."""
    both = {**asked, **bound}
    if "tags" in bound and "tags" in asked:
        tags = _tags(bound["tags"])
        both["tags"] = [*tags, *(tag for tag in _tags(asked["tags"]) if tag not in tags)]
    if isinstance(bound.get("metadata"), Mapping) and isinstance(asked.get("metadata"), Mapping):
        both["metadata"] = {**asked["metadata"], **bound["metadata"]}
    return both


def _tags(value: Any) -> list[Any]:
    return [value] if isinstance(value, str) else list(value) if isinstance(value, Iterable) else [value]
