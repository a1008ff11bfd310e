"""Documents as `pipeline` takes them, written as briefly as they can be."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from pipeline.records import DocumentFields, DocumentId, Upload

_OF_UPLOADS = {field.name for field in fields(Upload)}


def upload(document_id: str, body: str | bytes = b"", *, media_type: str = "text/plain", **given: Any) -> Upload:
    """Return a plain text with the given fields of the document (``title``) or of its upload (``chunking``)."""
    of_upload = {name: value for name, value in given.items() if name in _OF_UPLOADS}
    of_document = {name: value for name, value in given.items() if name not in _OF_UPLOADS}
    return Upload(
        document_id=DocumentId(document_id),
        fields=DocumentFields(**of_document),
        body=body.encode() if isinstance(body, str) else body,
        media_type=media_type,
        **of_upload,
    )
