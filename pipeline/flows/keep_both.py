"""Uploads under ids that are taken, kept beside the documents that have them (``on_conflict: new``)."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.core.document_ids import with_hash
from pipeline.records import DocumentId, Generation, Namespace, Upload
from pipeline.stores.documents import Documents
from pipeline.stores.duplicates import Content, Duplicates

_DIGITS = (0, 8, 32)  # of the hash in an id; 0 is the id that was sent


@dataclass(slots=True)
class Assigned:
    """The ids of uploads by ordinal. ``there``: ids of documents with the same bytes already. A missing ordinal found
    every id taken."""

    ids: dict[int, DocumentId] = field(default_factory=dict)
    there: dict[int, DocumentId] = field(default_factory=dict)
    numbered: dict[DocumentId, Generation] = field(default_factory=dict)


def assign_ids(
    documents: Documents, duplicates: Duplicates, namespace: Namespace, uploads: Mapping[int, Upload]
) -> Assigned:
    """Give each upload an id that no document with other bytes has, and a generation number.

    An upload keeps its id where that is free. Else the id gets a suffix made from the hash of its bytes, so that sending
    the same bytes again finds the document they became. The documents stay locked until the transaction ends, so that
    of two uploads at once the second one sees the first. Documents that are there are left as they are.
    """
    assigned = Assigned()
    taken: dict[DocumentId, Content] = {}  # by earlier uploads of this very request
    waiting = dict(uploads)
    for digits in _DIGITS:
        wanted: defaultdict[DocumentId, list[int]] = defaultdict(list)
        for ordinal, upload in waiting.items():
            wanted[_id(upload, digits)].append(ordinal)
        candidates = wanted.keys() - taken.keys()
        candidates -= documents.existing(namespace, candidates)
        numbered = documents.number(namespace, candidates, only_new=True) if candidates else {}
        contents = duplicates.contents(namespace, wanted.keys() - taken.keys() - numbered.keys()) | taken
        for document_id, ordinals in wanted.items():
            for ordinal in ordinals:
                upload = waiting[ordinal]
                if document_id in numbered and document_id not in contents:
                    assigned.ids[ordinal] = document_id
                    contents[document_id] = taken[document_id] = _content(upload)
                elif _is_same(upload, contents.get(document_id)):
                    assigned.there[ordinal] = document_id
                else:
                    continue
                del waiting[ordinal]
        assigned.numbered |= numbered
        if not waiting:
            break
    return assigned


def _id(upload: Upload, digits: int) -> DocumentId:
    return DocumentId(with_hash(upload.document_id, _digest(upload), digits)) if digits else upload.document_id


def _digest(upload: Upload) -> bytes:
    """The hash of the bytes; of the address where there are none yet."""
    return hashlib.sha256((upload.source_uri or "").encode() if upload.to_fetch else upload.body).digest()


def _content(upload: Upload) -> Content:
    return Content(content_hash=hashlib.sha256(upload.body).digest(), source_uri=upload.source_uri)


def _is_same(upload: Upload, content: Content | None) -> bool:
    if content is None:
        return False
    if upload.to_fetch:
        return content.source_uri == upload.source_uri
    return content.content_hash == _digest(upload)
