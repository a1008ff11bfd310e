"""Namespaces: list, verify and delete them."""

from functools import partial
from typing import Annotated, ClassVar

from fastapi import APIRouter, Path, Response
from pydantic import AfterValidator, Field

from api_gateway.http import cursors
from api_gateway.http.auth import require_scope
from api_gateway.http.caller import FullReader, Reader, Writer
from api_gateway.http.fields import NamespaceName, TenantWire, tidy_namespace
from api_gateway.http.problems import Problem, quoted
from api_gateway.http.responses import json_response
from api_gateway.http.route_descriptions import Cursor, Limit, Parameter, route
from api_gateway.live.computations import compute
from api_gateway.resources.route_parts import Json, existing, parse, send_page
from api_gateway.resources.shapes import NamespacePage
from chordwise.contract.namespace import (
    Alignment,
    NamespaceDeleted,
    NamespaceFields,
)
from pipeline.administration import list_documents
from pipeline.jobs.computation import ComputationKind
from pipeline.maintenance.erase import delete_namespace
from pipeline.records import Namespace


def _parse_name(name: str) -> Namespace:
    return Namespace(parse(tidy_namespace, name, _not_found(name)))


def _not_found(name: str) -> Problem:
    return Problem(404, "namespace_not_found", f"There is no namespace {quoted(name)}.")


router = APIRouter(tags=["namespaces"])

Name = Annotated[Namespace, AfterValidator(_parse_name), Path(description="The namespace's name.")]


@router.delete(
    "/v1/namespaces/{namespace}",
    **route("Delete a namespace", NamespaceDeleted, "Deleted; the numbers of deleted objects.", 404),
)
async def delete(caller: Writer, namespace: Name) -> Response:
    """Delete a namespace with all its documents, also those being ingested. If the answer is lost, repeat the request:
    it continues."""
    deleted = await caller.gateway.run_heavy(delete_namespace, caller.tenant_id, namespace, caller.use)
    caller.gateway.namespaces.forget(caller.tenant_id, namespace)
    return json_response(existing(deleted, _not_found(namespace)))


class VerifyRequest(TenantWire):
    """The namespaces to compare, all by default, and whether to repair differences. `delete_share` confirms that a
    repair may delete up to this share of the tenant's vectors and of its rows of chunks."""

    example: ClassVar = {"namespaces": ["kb"], "repair": False}
    most_bytes: ClassVar = 1024 * 1024

    namespaces: Annotated[list[NamespaceName], Field(min_length=1, max_length=1000)] | None = None
    repair: bool = False
    delete_share: Annotated[float, Field(ge=0, le=1)] | None = None


@router.get("/v1/namespaces", **route("List namespaces", NamespacePage, "One page of namespaces, by name."))
async def list_namespaces(
    caller: Reader,
    limit: Limit = 50,
    cursor: Cursor = None,
    examples: Annotated[bool, Parameter(description="Only those that hold examples of the library.")] = False,
    contains: Annotated[
        str | None,
        Parameter(min_length=1, max_length=64, description="Only those with this text in their name, in any case."),
    ] = None,
    sizes: Annotated[
        bool, Parameter(description="Also the `bytes` of their documents, which takes longer with many documents.")
    ] = False,
) -> Response:
    """List the namespaces. The first document that names a namespace creates it."""
    after = cursors.decode(cursor, "namespaces", str)
    start, use = after[0] if after else None, caller.use
    views = await caller.gateway.run(
        list_documents.list_namespaces,
        caller.tenant_id,
        use,
        reads_as=caller.reads_as if caller.principal.is_limited else None,
        after=start,
        limit=limit + 1,
        examples=examples,
        contains=contains,
        sizes=sizes,
    )
    return send_page(views, limit, "namespaces", lambda view: (view.namespace,))


@router.get(
    "/v1/namespaces/{namespace}/fields",
    **route("List the values to filter by", NamespaceFields, "The values in use.", 404),
)
async def list_fields(caller: Reader, namespace: Name) -> Response:
    """Return the types, authors, tags, keys of metadata and times of the namespace's published documents, with how many
    documents have each. It reads up to 10,000 documents, for at most two seconds."""
    await caller.gateway.namespaces.require(caller.tenant_id, [namespace])
    read = partial(list_documents.used_fields, reads_as=caller.reads_as)
    fields = await caller.gateway.run(read, caller.tenant_id, namespace, caller.use)
    return json_response(fields)


@router.post("/v1/verify", **route("Compare both stores", Alignment, "How the stores compare.", 404))
async def verify_stores(caller: FullReader, body: Json[VerifyRequest]) -> Response:
    """Compare every chunk with every vector; it may take a while. `repair` needs the scope `write`."""
    if body.repair:
        require_scope(caller.principal, "write")
    names = None if body.namespaces is None else [Namespace(name) for name in dict.fromkeys(body.namespaces)]
    if names is not None:
        await caller.gateway.namespaces.require(caller.tenant_id, names)
    asked = {"namespaces": names, "repair": body.repair, "delete_share": body.delete_share}
    done = await compute(caller, ComputationKind.VERIFY, asked)
    return Response(done.body, media_type="application/json")
