"""Documents on their way to the server: their JSON, and their grouping into requests of a sensible size."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, TypeVar

from chordwise.errors import InvalidInput
from chordwise.transport import encode

T = TypeVar("T")

MAX_DOCUMENTS = 1_000  # per request: few enough that one refused request is cheap to send again
MAX_BYTES = 16_000_000  # per request, of JSON or of file contents


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document to ingest. Without ``document_id`` the server gives one, and sending it again adds a second copy.

    Instead of ``text``, ``source`` may hold ``bytes`` in base64, or a ``uri`` that the server fetches the document from.
    ``story_time`` is in the unit that the namespace chose; a ``published_at`` without time zone is taken as UTC.
    ``chunking`` is used in place of that of the call.
    """

    text: str | None = None
    document_id: str | None = None
    title: str | None = None
    author: str | None = None
    type: str | None = None
    tags: tuple[str, ...] = ()
    published_at: datetime | str | None = None
    story_time: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    source: Mapping[str, Any] | None = None
    chunking: Mapping[str, Any] | None = None


FIELDS = frozenset(field.name for field in fields(Document))


def document_json(document: Document | Mapping[str, Any]) -> dict[str, Any]:
    """The document as the server takes it: what is not set is left out, times are RFC 3339. Raises InvalidInput."""
    if isinstance(document, Document):
        pairs: Iterable[tuple[str, Any]] = ((name.name, getattr(document, name.name)) for name in fields(document))
    elif isinstance(document, Mapping):
        pairs = document.items()
    else:
        raise InvalidInput(f"a document must be a Document or a mapping, not {type(document).__name__}")
    return {name: plain(value) for name, value in pairs if value is not None and value != () and value != {}}


def plain(value: Any) -> Any:
    """A value in JSON's terms: times as RFC 3339, without time zone taken as UTC; collections as arrays."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    if isinstance(value, tuple | set | frozenset):
        return list(value)
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """What holds for everything sent in one go. ``type``, ``tags`` and ``metadata`` add to what a document says itself;
    ``parser_hint`` and ``charset`` are for files only. None leaves the choice to the server."""

    namespace: str
    on_conflict: str | None = None
    chunking: Mapping[str, Any] | None = None
    type: str | None = None
    tags: Sequence[str] = ()
    metadata: Mapping[str, Any] | None = None
    parser_hint: str | None = None
    charset: str | None = None
    priority: str | None = None

    def body(self) -> dict[str, Any]:
        """The fields beside ``documents`` in the body of a request."""
        options: dict[str, Any] = {
            "namespace": self.namespace,
            "on_conflict": self.on_conflict,
            "chunking": self.chunking,
        }
        options["priority"] = self.priority
        return {name: value for name, value in options.items() if value is not None}

    def form(self) -> dict[str, str]:
        """The fields beside the files of an upload: text as it is, everything else as JSON."""
        labels = {
            "type": self.type,
            "tags": self.tags,
            "metadata": self.metadata,
            "parser_hint": self.parser_hint,
            "charset": self.charset,
        }
        options = {**self.body(), **{name: value for name, value in labels.items() if value}}
        return {
            name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for name, value in options.items()
        }

    def labelled(self, document: dict[str, Any]) -> dict[str, Any]:
        """The document with these labels added; its own type and metadata win. Fields of a wrong type stay as they
        are, for the server to refuse."""
        labelled = dict(document)
        if self.type:
            labelled.setdefault("type", self.type)
        tags, metadata = document.get("tags", []), document.get("metadata", {})
        if self.tags and isinstance(tags, list):
            labelled["tags"] = [*tags, *(tag for tag in self.tags if tag not in tags)]
        if self.metadata and isinstance(metadata, Mapping):
            labelled["metadata"] = {**self.metadata, **metadata}
        return labelled


def grouped(things: Iterable[T], size: Callable[[T], int], *, at_most: int, max_bytes: int) -> Iterator[list[T]]:
    """Cut into runs, in order, of up to ``at_most`` things and ``max_bytes``; a larger thing travels alone."""
    group: list[T] = []
    filled = 0
    for thing in things:
        room = size(thing)
        if group and (len(group) == at_most or filled + room > max_bytes):
            yield group
            group, filled = [], 0
        group.append(thing)
        filled += room
    if group:
        yield group


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentBatch:
    """The body of one request. ``repeatable``: every document has an id and replaces itself, so twice is as once."""

    content: bytes
    documents: int
    repeatable: bool


def document_batches(
    documents: Iterable[Document | Mapping[str, Any]], options: IngestOptions
) -> Iterator[DocumentBatch]:
    """The requests that carry ``documents``. Raises InvalidInput."""
    head = encode(options.body())[:-1]
    replaces = options.on_conflict in (None, "replace", "new")
    encoded = (_encoded(options.labelled(document_json(document))) for document in documents)
    for group in grouped(encoded, lambda pair: len(pair[0]) + 1, at_most=MAX_DOCUMENTS, max_bytes=MAX_BYTES):
        bodies = b",".join(body for body, _ in group)
        yield DocumentBatch(
            content=head + b',"documents":[' + bodies + b"]}",
            documents=len(group),
            repeatable=replaces and all(named for _, named in group),
        )


def _encoded(document: dict[str, Any]) -> tuple[bytes, bool]:
    try:
        return encode(document), "document_id" in document or _is_named_by_address(document)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"document {document.get('document_id', '')!r} is not JSON: {error}") from error


def _is_named_by_address(document: Mapping[str, Any]) -> bool:
    source = document.get("source")
    return "text" not in document and isinstance(source, Mapping) and not {"text", "bytes"} & set(source)


def is_url(thing: object) -> bool:
    """Whether this is the address of a document that the server is to fetch."""
    return isinstance(thing, str) and thing.lower().startswith(("http://", "https://"))


def document_at(url: str) -> dict[str, Any]:
    """A document that the server fetches, and that is called by its address."""
    return {"source": {"uri": url}}
