"""Documents and their generations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from chordwise.api.jobs import Job
from chordwise.contract import chunk, document
from chordwise.contract.document import DocumentFields
from chordwise.errors import InvalidInput
from chordwise.resource import Resource, given, operation, path
from chordwise.transport import Steps, plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Document(DocumentFields):
    """One document to ingest. Without ``document_id`` the server assigns one, and sending it again adds a copy.

    Instead of ``text``, ``source`` may hold ``bytes`` in base64, or a ``uri`` that the server fetches the document from.
    ``story_time`` is in the unit that the namespace chose; a ``published_at`` without time zone is taken as UTC.
    ``chunking`` is used in place of that of the call.
    """

    text: str | None = None
    document_id: str | None = None
    published_at: datetime | str | None = None  # type: ignore[assignment]  # also as a text that the server reads
    source: Mapping[str, Any] | None = None
    chunking: Mapping[str, Any] | None = None


MOST_CHANGED = 500  # documents of one request
FIELDS = frozenset(field.name for field in fields(Document))


DocumentInfo = document.Document
GenerationInfo = document.GenerationShape
DocumentGenerations = document.GenerationList
DocumentText = chunk.DocumentText
DocumentsChange = document.DocumentsChanged
SimilarDocument = document.SimilarDocument


class DocumentOperations(Resource):
    """Operations on documents and their generations."""

    @operation
    def documents(
        self,
        *,
        namespace: str | None = None,
        status: str | None = None,
        source_id: str | None = None,
        contains: str | None = None,
        filters: Mapping[str, Any] | None = None,
        duplicates: bool = False,
        order_by: str | None = None,
        limit: int | None = 100,
    ) -> Steps[list[DocumentInfo]]:
        """List searchable and pending documents of a namespace, or of all; ``limit`` None for every one.

        With ``status`` (queued, running, succeeded, failed or cancelled), those whose latest upload is in that state;
        with ``source_id`` those of one source; with ``contains`` those with this text in their id or title; with
        ``filters`` those that fit the filters of a query; with ``duplicates`` those with the bytes of an older one.
        ``order_by``: document_id (default), title, updated_at or -updated_at.
        """
        selection = {
            "namespace": namespace or None,
            "status": status or None,
            "source_id": source_id or None,
            "contains": contains or None,
            "filters": json.dumps(dict(filters), default=plain) if filters else None,
            "duplicates": duplicates or None,
            "order_by": order_by or None,
        }
        return self._pages(DocumentInfo, "/v1/documents", selection, limit=limit)

    @operation
    def document(self, document_id: str, *, namespace: str) -> Steps[DocumentInfo]:
        """Return a document as it is listed. ProblemError with status 404 if there is none."""
        return self._one(DocumentInfo, "GET", path("documents", document_id), params={"namespace": namespace})

    @operation
    def delete_document(self, document_id: str, *, namespace: str) -> Steps[None]:
        """Delete a document and its chunks. ProblemError with status 404 if there is none."""
        return self._delete(path("documents", document_id), params={"namespace": namespace})

    @operation
    def original(self, document_id: str, *, namespace: str, generation: int | None = None) -> Steps[bytes]:
        """Return the bytes of a document as they were uploaded; of an earlier ``generation`` while it is retained."""
        params = {"namespace": namespace, "generation": generation}
        return self._bytes(path("documents", document_id, "original"), params)

    @operation
    def document_text(self, document_id: str, *, namespace: str) -> Steps[DocumentText]:
        """Return the text that a document's chunks were cut from, with the position of each."""
        target = path("documents", document_id, "text")
        return self._one(DocumentText, "GET", target, params={"namespace": namespace})

    @operation
    def page_image(self, document_id: str, page: int, *, namespace: str, width: int | None = None) -> Steps[bytes]:
        """Return a page of a PDF file as PNG, ``width`` pixels wide. ProblemError with status 404 beyond the last one."""
        params = {"namespace": namespace, "width": width}
        return self._bytes(path("documents", document_id, "pages", str(page)), params)

    @operation
    def similar_documents(self, document_id: str, *, namespace: str) -> Steps[list[SimilarDocument]]:
        """Return the documents of the namespace that are most similar to one, best first."""
        target = path("documents", document_id, "similar")
        return self._list(SimilarDocument, target, {"namespace": namespace})

    @operation
    def change_documents(
        self,
        document_ids: Iterable[str],
        *,
        namespace: str,
        fields: Mapping[str, Any] | None = None,
        add_tags: Iterable[str] = (),
        remove_tags: Iterable[str] = (),
        chunking: Mapping[str, Any] | None = None,
        discard_edits: bool = False,
        if_match: str | None = None,
    ) -> Steps[Job]:
        """Ingest up to 500 documents again: with new ``fields`` such as ``title`` or ``metadata``, other tags, another
        ``chunking``, or as they are.

        Documents with edited chunks are refused without ``discard_edits``; other documents are not affected.
        ``if_match``: only if the generations of the one document still have this etag, else ProblemError with status 412.
        """
        body = given(
            namespace=namespace,
            document_ids=list(document_ids),
            set={name: plain(value) for name, value in fields.items()} if fields else None,
            add_tags=list(add_tags) or None,
            remove_tags=list(remove_tags) or None,
            chunking=None if chunking is None else dict(chunking),
            discard_edits=discard_edits or None,
        )
        headers = {} if if_match is None else {"If-Match": if_match}
        return self._one(Job, "PATCH", "/v1/documents", body=body, headers=headers, safe=False)

    @operation
    def delete_documents(self, document_ids: Iterable[str], *, namespace: str) -> Steps[DocumentsChange]:
        """Delete up to 500 documents and their chunks."""
        body = {"namespace": namespace, "document_ids": list(document_ids)}
        return self._one(DocumentsChange, "DELETE", "/v1/documents", body=body)

    @operation
    def set_readers(
        self,
        readers: Iterable[str],
        *,
        namespace: str,
        document_ids: Iterable[str] | None = None,
        source_id: str | None = None,
        filters: Mapping[str, Any] | None = None,
    ) -> Steps[DocumentsChange]:
        """Change at once the readers of the documents with these ids, of this source or that meet these filters.

        ``public`` stands for everyone. Repeat the call while there is ``more``.
        """
        body = given(
            namespace=namespace,
            readers=list(readers),
            document_ids=None if document_ids is None else list(document_ids),
            source_id=source_id,
            filters=None if filters is None else dict(filters),
        )
        return self._one(DocumentsChange, "PUT", "/v1/documents/readers", body=body)

    @operation
    def set_default_readers(self, readers: Iterable[str], *, namespace: str) -> Steps[None]:
        """Set the readers of a namespace's new documents that name none."""
        body = {"namespace": namespace, "readers": list(readers), "default": True}
        yield from self._request("PUT", "/v1/documents/readers", body=body)

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
