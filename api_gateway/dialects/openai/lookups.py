"""Look-ups that several routes share, their 404 answers, and the pages of this dialect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Literal, TypeVar

from fastapi import Query as Parameter
from starlette.responses import Response

from api_gateway.dialects.openai import objects
from api_gateway.dialects.openai.error_bodies import no_file, no_store, wrong
from api_gateway.gateway import Gateway
from api_gateway.http.fields import tidy_namespace
from api_gateway.http.problems import Problem
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


def place_of(after: str | None, before: str | None, position: Callable[[str], datetime | None]) -> ListPosition | None:
    """Return the requested position in a list. Raises Problem for an unknown entry, or for two. ``position`` returns an
    entry's creation time."""
    if after is not None and before is not None:
        raise wrong("before", "cannot be given together with after")
    named, param = (after, "after") if after is not None else (before, "before")
    if named is None:
        return None
    found = position(named)
    if found is None:
        raise wrong(param, "is not the id of an entry of this list")
    return ListPosition(at=found, name=named, backwards=param == "before")


def cut(entries: Sequence[T], limit: int, place: ListPosition | None) -> tuple[Sequence[T], bool]:
    """Return one page of up to ``limit + 1`` entries, and whether there are more in that direction."""
    if len(entries) <= limit:
        return entries, False
    return (entries[1:] if place is not None and place.backwards else entries[:limit]), True


def namespace_of(store_id: str) -> Namespace:
    """Return the namespace of a vector store. Raises Problem(404) for an invalid id."""
    try:
        return Namespace(tidy_namespace(store_id))
    except ValueError:
        raise no_store(store_id) from None


def store_of(principal: Principal, store_id: str, gateway: Gateway, *, in_use: bool = False) -> VectorStore:
    """Return a vector store, unless it is to be used (``in_use``) and has expired. Blocking. Raises Problem(404) or
    Problem(400)."""
    found = edit_vector_stores.find_store(principal.tenant_id, namespace_of(store_id), gateway.resources)
    if found is None:
        raise no_store(store_id)
    if in_use and found.has_expired(datetime.now(UTC)):
        detail = f"The vector store {found.namespace} has expired, and what was in it is gone."
        raise Problem(400, "vector_store_expired", detail)
    return found


def file_of(principal: Principal, store_id: str, file_id: str, gateway: Gateway) -> Attached:
    """Return a file in a vector store. Blocking. Raises Problem 404."""
    namespace = namespace_of(store_id)
    found = edit_vector_stores.find_files(principal.tenant_id, namespace, [file_id], gateway.resources)
    if file_id not in found:
        store_of(principal, store_id, gateway)
        raise no_file(file_id)
    return found[file_id]


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
    principal: Principal,
    namespace: Namespace,
    gateway: Gateway,
    *,
    limit: int,
    order: str,
    after: str | None,
    before: str | None,
    status: Status | None,
    job_id: JobId | None = None,
) -> Response:
    """Return a page of the files in a vector store, or of those that a job was the last to add. Blocking. Raises
    Problem for a bad cursor."""
    page, place = edit_vector_stores.list_files(
        principal.tenant_id,
        namespace,
        lambda position: place_of(after, before, position),
        gateway.resources,
        newest_first=order == "desc",
        status=status,
        job_id=job_id,
        limit=limit + 1,
    )
    entries, has_more = cut(page, limit, place)
    return objects.page_response([objects.store_file(each) for each in entries], has_more=has_more)
