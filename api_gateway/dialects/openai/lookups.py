"""Look-ups that several routes share, their 404 answers, and the pages of this dialect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Literal, TypeVar

from fastapi import Depends
from fastapi import Query as Parameter
from starlette.responses import Response

from api_gateway.dialects.openai import objects
from api_gateway.dialects.openai.error_bodies import no_file, no_store, wrong
from api_gateway.gateway import Gateway
from api_gateway.http.fields import tidy_namespace
from api_gateway.http.problems import Problem
from api_gateway.resources.route_parts import existing
from pipeline.administration import edit_vector_stores
from pipeline.administration.edit_vector_stores import NoSuchFile, Put, put_files
from pipeline.ingestion.accept import AcceptedJob
from pipeline.records import JobId, Namespace
from pipeline.tenants.accounts import Principal
from pipeline.vector_stores.collection import Attached, ListPosition, Status, VectorStore
from workers import dispatch

T = TypeVar("T")

Order = Annotated[Literal["asc", "desc"], Parameter(description="Order by creation time; `desc` is newest first.")]
Limit = Annotated[int, Parameter(ge=1, le=100, description="Entries per page.")]
After = Annotated[str | None, Parameter(max_length=64, description="The last entry of the previous page.")]
Before = Annotated[str | None, Parameter(max_length=64, description="The first entry of the next page.")]
Filter = Annotated[
    Literal["in_progress", "completed", "failed", "cancelled"] | None,
    Parameter(description="Only those of this status."),
]


@dataclass(frozen=True, slots=True)
class ListQuery:
    """The parameters of a list."""

    limit: int
    newest_first: bool
    after: str | None
    before: str | None
    status: Status | None = None

    def start(self, created_at: Callable[[str], datetime | None]) -> ListPosition | None:
        """Return the requested position in the list. Raises Problem for an unknown entry, or for two. ``created_at``
        returns an entry's creation time."""
        if self.after is not None and self.before is not None:
            raise wrong("before", "cannot be given together with after")
        name, param = (self.after, "after") if self.after is not None else (self.before, "before")
        if name is None:
            return None
        time = created_at(name)
        if time is None:
            raise wrong(param, "is not the id of an entry of this list")
        return ListPosition(at=time, name=name, backwards=param == "before")


async def _list_query(
    limit: Limit = 20, order: Order = "desc", after: After = None, before: Before = None
) -> ListQuery:
    return ListQuery(limit, order == "desc", after, before)


async def _file_list_query(
    limit: Limit = 20, order: Order = "desc", after: After = None, before: Before = None, filter: Filter = None
) -> ListQuery:
    return ListQuery(limit, order == "desc", after, before, filter)


StoreListQuery = Annotated[ListQuery, Depends(_list_query)]
FileListQuery = Annotated[ListQuery, Depends(_file_list_query)]


def cut(entries: Sequence[T], limit: int, position: ListPosition | None) -> tuple[Sequence[T], bool]:
    """Return one page of up to ``limit + 1`` entries, and whether there are more in that direction."""
    if len(entries) <= limit:
        return entries, False
    return (entries[1:] if position is not None and position.backwards else entries[:limit]), True


def namespace_of(store_id: str) -> Namespace:
    """Return the namespace of a vector store. Raises Problem(404) for an invalid id."""
    try:
        return Namespace(tidy_namespace(store_id))
    except ValueError:
        raise no_store(store_id) from None


def store_of(principal: Principal, store_id: str, gateway: Gateway, *, in_use: bool = False) -> VectorStore:
    """Return a vector store, unless it is to be used (``in_use``) and has expired. Blocking. Raises Problem(404) or
    Problem(400)."""
    stored = edit_vector_stores.find_store(principal.tenant_id, gateway.resources, namespace_of(store_id))
    store = existing(stored, no_store(store_id))
    if in_use and store.has_expired(datetime.now(UTC)):
        detail = f"The vector store {store.namespace} has expired, and what was in it is gone."
        raise Problem(400, "vector_store_expired", detail)
    return store


def file_of(principal: Principal, store_id: str, file_id: str, gateway: Gateway) -> Attached:
    """Return a file in a vector store. Blocking. Raises Problem 404."""
    namespace = namespace_of(store_id)
    files = edit_vector_stores.find_files(principal.tenant_id, gateway.resources, namespace, [file_id])
    if file_id not in files:
        store_of(principal, store_id, gateway)
        raise no_file(file_id)
    return files[file_id]


def put(
    principal: Principal,
    namespace: Namespace,
    puts: list[Put],
    gateway: Gateway,
    *,
    request_id: str,
    opening: VectorStore | None = None,
) -> AcceptedJob:
    """Put files into a vector store. Blocking. Raises Problem(404) for a file that does not exist."""
    try:
        return put_files(
            principal.tenant_id,
            namespace,
            puts,
            gateway.resources,
            ring=dispatch.ring,
            request_id=request_id,
            opening=opening,
        )
    except NoSuchFile as error:
        raise no_file(str(error)) from None


def files_page(
    principal: Principal, namespace: Namespace, gateway: Gateway, query: ListQuery, *, job_id: JobId | None = None
) -> Response:
    """Return a page of the files in a vector store, or of those that a job was the last to add. Blocking. Raises
    Problem for a bad cursor."""
    files, position = edit_vector_stores.list_files(
        principal.tenant_id,
        namespace,
        query.start,
        gateway.resources,
        newest_first=query.newest_first,
        status=query.status,
        job_id=job_id,
        limit=query.limit + 1,
    )
    page, has_more = cut(files, query.limit, position)
    return objects.page_response([objects.store_file(file) for file in page], has_more=has_more)
