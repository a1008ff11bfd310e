"""Documents and their generations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from chordwise.api.jobs import Job
from chordwise.errors import InvalidInput
from chordwise.records import Result
from chordwise.resource import Resource, given, operation, path
from chordwise.transport import Steps, plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document to ingest. Without ``document_id`` the server assigns one, and sending it again adds a copy.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentInfo(Result):
    """A document as the server lists it; further fields are in ``raw``. ``status`` is that of its latest upload: queued,
    running, succeeded, failed or cancelled. ``generation``: the upload that searches see. ``chunking``: the strategy and
    options it is cut by. ``duplicate_of``: the oldest document of the namespace with the same bytes. ``source``: where it
    came from, with ``source_id``, ``kind``, ``uri``, ``media_type``, ``encoding``, ``page_start`` and ``page_end`` among
    others."""

    document_id: str
    namespace: str = ""
    status: str = ""
    generation: int | None = None
    chunks: int = 0
    title: str | None = None
    author: str | None = None
    type: str | None = None
    tags: tuple[str, ...] = ()
    published_at: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    chunking: Mapping[str, Any] = field(default_factory=dict)
    duplicate_of: str | None = None
    source: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationInfo(Result):
    """One ingestion of a document. ``state``: shown, previous (rollback is possible until ``kept_until``), pending,
    failed, cancelled or retired. ``bytes``: the size of the upload."""

    generation: int
    state: str = ""
    title: str | None = None
    created_at: datetime | None = None
    kept_until: datetime | None = None
    chunks: int | None = None
    content_hash: str = ""
    bytes: int = 0
    job_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentGenerations(Result):
    """The remaining generations of a document, newest first. ``etag`` identifies this state."""

    namespace: str = ""
    document_id: str = ""
    etag: str = ""
    data: tuple[GenerationInfo, ...] = ()


class DocumentOperations(Resource):
    """Operations on documents and their generations."""

    @operation
    def documents(
        self,
        *,
        namespace: str | None = None,
        status: str | None = None,
        source_id: str | None = None,
        limit: int | None = 100,
    ) -> Steps[list[DocumentInfo]]:
        """List searchable and pending documents of a namespace, or of all; ``limit`` None for every one.

        With ``status`` (queued, running, succeeded, failed or cancelled), those whose latest upload is in that state;
        with ``source_id`` those of one source.
        """
        filters = {"namespace": namespace or None, "status": status or None, "source_id": source_id or None}
        return self._pages(DocumentInfo, "/v1/documents", filters, limit=limit)

    @operation
    def document(self, document_id: str, *, namespace: str) -> Steps[DocumentInfo]:
        """Return a document as it is listed. ProblemError with status 404 if there is none."""
        return self._one(DocumentInfo, "GET", path("documents", document_id), params={"namespace": namespace})

    @operation
    def delete_document(self, document_id: str, *, namespace: str) -> Steps[None]:
        """Delete a document and its chunks. ProblemError with status 404 if there is none."""
        return self._delete(path("documents", document_id), params={"namespace": namespace})

    @operation
    def generations(self, document_id: str, *, namespace: str) -> Steps[DocumentGenerations]:
        """Return the remaining generations of a document, newest first."""
        source = path("documents", document_id, "generations")
        return self._one(DocumentGenerations, "GET", source, params={"namespace": namespace})

    @operation
    def rollback(
        self, document_id: str, *, namespace: str, generation: int | None = None, if_match: str | None = None
    ) -> Steps[Job]:
        """Go back to the previous generation, or to another retained one: its upload is ingested again.

        ``if_match``: only if the generations still have this etag, else ProblemError with status 412. ProblemError with
        status 409 if no generation is retained.
        """
        body = given(namespace=namespace, generation=generation)
        headers = {} if if_match is None else {"If-Match": if_match}
        target = path("documents", document_id, "rollback")
        return self._one(Job, "POST", target, body=body, headers=headers, safe=False)


def document_json(document: Document | Mapping[str, Any]) -> dict[str, Any]:
    """Return the document in the server's format: unset fields left out, times in RFC 3339. Raises InvalidInput."""
    if isinstance(document, Document):
        pairs: Iterable[tuple[str, Any]] = ((field.name, getattr(document, field.name)) for field in fields(document))
    elif isinstance(document, Mapping):
        pairs = document.items()
    else:
        raise InvalidInput(f"a document must be a Document or a mapping, not {type(document).__name__}")
    return {name: plain(value) for name, value in pairs if value is not None and value != () and value != {}}


def is_url(value: object) -> bool:
    """Return whether this is the address of a document that the server should fetch."""
    return isinstance(value, str) and value.lower().startswith(("http://", "https://"))


def document_at(url: str) -> dict[str, Any]:
    """Return a document that the server fetches and names by its address."""
    return {"source": {"uri": url}}
