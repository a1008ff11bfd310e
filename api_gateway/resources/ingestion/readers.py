"""The readers of documents: change those of many in place, and the default of a namespace."""

from functools import partial
from typing import Annotated, ClassVar, Self

from fastapi import APIRouter, Response
from pydantic import Field, model_validator

from api_gateway.http import fields
from api_gateway.http.caller import Writer
from api_gateway.http.fields import TenantWire
from api_gateway.http.responses import json_response
from api_gateway.http.route_descriptions import route
from api_gateway.resources.ingestion.stored_documents import MOST_DOCUMENTS
from api_gateway.resources.retrieval.query_body import FiltersIn, to_filters
from api_gateway.resources.route_parts import MOST_SHAPE_BYTES, Json, refuse_repeated
from chordwise.contract.document import DocumentsChanged
from pipeline.administration import set_readers
from pipeline.filters.readers import stored_readers
from pipeline.records import DocumentId, Namespace

_REPEATED = "stands earlier in this list"


class ReadersRequest(TenantWire):
    """The documents, by id, source or filters (all that are given must hold), and their new readers. `default`: the new
    documents of the namespace that name none, which is created if it does not exist."""

    example: ClassVar = {"namespace": "kb", "document_ids": ["salaries-2026"], "readers": ["group:hr"]}
    most_bytes: ClassVar = MOST_SHAPE_BYTES

    namespace: fields.NamespaceName
    readers: fields.ReaderNames
    document_ids: Annotated[list[fields.DocumentIdText], Field(min_length=1, max_length=MOST_DOCUMENTS)] | None = None
    source_id: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    filters: FiltersIn | None = None
    default: bool = False

    @property
    def selects(self) -> bool:
        """Whether it is about documents that exist."""
        return not (self.document_ids is None and self.source_id is None and self.filters is None)

    @model_validator(mode="after")
    def _select_some(self) -> Self:
        if not (self.selects or self.default):
            raise ValueError("names no documents: give document_ids, source_id, filters or default")
        return self


router = APIRouter(tags=["documents"])


@router.put(
    "/v1/documents/readers", **route("Change the readers of documents", DocumentsChanged, "How many had other readers.")
)
async def change(caller: Writer, sent: Json[ReadersRequest]) -> Response:
    """Change the readers of documents at once: nothing is ingested or embedded again, and answers under way, the answer cache
    and both indexes follow. `more` is true where the time was not enough for all; repeat the request, which continues."""
    if sent.document_ids is not None:
        refuse_repeated(sent.document_ids, "/document_ids/{}", _REPEATED)
    use, namespace, readers = caller.use, Namespace(sent.namespace), stored_readers(sent.readers)
    if sent.default:
        await caller.gateway.run(set_readers.set_default, caller.tenant_id, namespace, readers, use)
        caller.gateway.namespaces.forget(caller.tenant_id, namespace)
    if not sent.selects:
        return json_response({"namespace": namespace, "documents": 0, "more": False})
    changed, complete = await caller.gateway.run_heavy(
        partial(
            set_readers.set_readers,
            document_ids=None if sent.document_ids is None else [DocumentId(name) for name in sent.document_ids],
            source_id=sent.source_id,
            filters=None if sent.filters is None else to_filters(sent.filters),
        ),
        caller.tenant_id,
        namespace,
        readers,
        use,
    )
    return json_response({"namespace": namespace, "documents": changed, "more": not complete})
