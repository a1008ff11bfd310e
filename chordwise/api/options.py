"""The keywords that the clients' methods take, declared once for both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Required, TypedDict

from chordwise.api.results import Ingestion

ON_CONFLICT = ("replace", "skip", "error", "new")


class IngestKeywords(TypedDict, total=False):
    """What ``ingest`` takes beside the documents. What is left out is the server's choice.

    ``on_conflict`` is replace, skip, error or new; ``type``, ``tags`` and ``metadata`` add to what a document says itself.
    ``priority`` is interactive or bulk.
    """

    namespace: Required[str]
    on_conflict: str | None
    chunking: Mapping[str, Any] | None
    type: str | None
    tags: Sequence[str]
    metadata: Mapping[str, Any] | None
    priority: str | None


class FileKeywords(IngestKeywords, total=False):
    """Options of ``ingest_files``. ``charset`` names the encoding of text; without it, the server detects it."""

    parser_hint: str | None
    charset: str | None


class SettingKeywords(TypedDict, total=False):
    """How ``query`` is to answer. What is left out, or None, is the server's choice.

    ``method`` is hybrid, full_text or semantic (short for that key of ``retrieve``). Times in ``filters`` may be datetime
    objects; those without a time zone are taken as UTC. ``conversation``: the messages before the query, oldest first;
    ``user_profile``: what is known of the user. ``extra`` has further fields of the request as they are.
    """

    top_k: int | None
    filters: Mapping[str, Any] | None
    method: str | None
    retrieve: Mapping[str, Any] | None
    rerank: bool | None
    expand: bool | None
    profile: str | None
    context: Mapping[str, Any] | None
    conversation: Sequence[str] | None
    user_profile: Mapping[str, Any] | None
    trace: bool | None
    extra: Mapping[str, Any] | None


class QueryKeywords(SettingKeywords, total=False):
    """Fields of a query beside its text. ``namespace`` and ``namespaces`` are synonyms; one of them is required."""

    namespace: str | None
    namespaces: Iterable[str] | str | None


class AskKeywords(QueryKeywords, total=False):
    """Everything that ``query`` takes beside the text."""

    timeout: float | None
    request_id: str | None
    fresh: bool


class BoundKeywords(SettingKeywords, total=False):
    """What may be settled for all queries over the same namespaces. ``timeout`` in seconds, for one query."""

    timeout: float | None
    fresh: bool


Told = Callable[[Ingestion], None]


class DeadLetterFilters(TypedDict, total=False):
    """Which dead letters: those that fit every filter given. ``reason``: rejected, gave_up or bug."""

    job_id: str | None
    namespace: str | None
    code: str | None
    reason: str | None
