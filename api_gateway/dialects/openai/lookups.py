"""What several routes look up, or answer 404 for, and pages as this dialect has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Literal, TypeVar

from fastapi import Query as Parameter
from starlette.responses import Response

from api_gateway.dialects.openai import conversions as shown
from api_gateway.dialects.openai.error_bodies import no_file, no_store, wrong
from api_gateway.gateway import Gateway
from api_gateway.http.fields import tidy_namespace
from api_gateway.http.problems import Problem
from pipeline.administration.edit_vector_stores import NoSuchFile, Put, put_files
from pipeline.database.unit_of_work import unit_of_work
from pipeline.ingestion.accept import AcceptedJob
from pipeline.records import JobId, Namespace
from pipeline.tenants.tenant_store import Principal
from pipeline.vector_stores.attachment_store import Attached, Attachments, ListPosition, Status
from pipeline.vector_stores.collection_store import VectorStore, VectorStores
from workers import dispatch

T = TypeVar("T")

Order = Annotated[Literal["asc", "desc"], Parameter(description="By the time of creation; the newest first in `desc`.")]
Limit = Annotated[int, Parameter(ge=1, le=100, description="Entries per page.")]
After = Annotated[str | None, Parameter(max_length=64, description="The last entry of the page before.")]
Before = Annotated[str | None, Parameter(max_length=64, description="The first entry of the page after.")]
Filter = Annotated[
    Literal["in_progress", "completed", "failed", "cancelled"] | None,
    Parameter(description="Only those of this status."),
]


def place_of(after: str | None, before: str | None, position: Callable[[str], datetime | None]) -> ListPosition | None:
    """Return the position a request names. Raises Problem for an unknown entry, or for two. ``position``: when it was made."""
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
    """One page out of up to ``limit + 1`` entries, and whether there are more the way it goes."""
    if len(entries) <= limit:
        return entries, False
    return (entries[1:] if place is not None and place.backwards else entries[:limit]), True


def namespace_of(store_id: str) -> Namespace:
    """The namespace a vector store is. Raises Problem 404 for what can be none."""
    try:
        return Namespace(tidy_namespace(store_id))
    except ValueError:
        raise no_store(store_id) from None


def store_of(principal: Principal, store_id: str, gateway: Gateway, *, in_use: bool = False) -> VectorStore:
    """A vector store; one that is ``in_use`` must not have expired. Blocking. Raises Problem 404 or 400."""
    with unit_of_work(gateway.resources.mysql) as work:
        found = VectorStores(work.connection, principal.tenant_id).one(namespace_of(store_id))
    if found is None:
        raise no_store(store_id)
    if in_use and found.has_expired(datetime.now(UTC)):
        detail = f"The vector store {found.namespace} has expired, and what was in it is gone."
        raise Problem(400, "vector_store_expired", detail)
    return found


def file_of(principal: Principal, store_id: str, file_id: str, gateway: Gateway) -> Attached:
    """A file in a vector store. Blocking. Raises Problem 404."""
    namespace = namespace_of(store_id)
    with unit_of_work(gateway.resources.mysql) as work:
        found = Attachments(work.connection, principal.tenant_id).named(namespace, [file_id])
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
    """Put files into a vector store. Blocking. Raises Problem 404 for a file that there is not."""
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
    """Return a page of a vector store's files, or of those a job brought last. Blocking. Raises Problem for a bad cursor."""
    with unit_of_work(gateway.resources.mysql) as work:
        attachments = Attachments(work.connection, principal.tenant_id)

        def position(file_id: str) -> datetime | None:
            return attachments.position(namespace, file_id)

        place = place_of(after, before, position)
        newest_first = order == "desc"
        page = attachments.page(
            namespace, place=place, newest_first=newest_first, status=status, limit=limit + 1, job_id=job_id
        )
    entries, has_more = cut(page, limit, place)
    return shown.page_response([shown.store_file(each) for each in entries], has_more=has_more)
