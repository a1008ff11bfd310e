"""A whole namespace, taken away."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from api_gateway.gateway import gateway_of
from api_gateway.http.auth import Writer
from api_gateway.http.descriptions import answers
from api_gateway.http.fields import tidy_namespace
from api_gateway.http.problems import Problem
from api_gateway.http.responses import json_response
from api_gateway.resources.shapes import NamespaceDeleted
from pipeline.maintenance.erase import delete_namespace
from pipeline.records import Namespace

router = APIRouter(tags=["namespaces"])


@router.delete(
    "/v1/namespaces/{namespace}",
    responses=answers(200, NamespaceDeleted, "It is gone, with how much was in it.", 401, 403, 404, 422, 503),
    summary="Delete a namespace",
)
async def delete(
    request: Request, principal: Writer, namespace: Annotated[str, Path(description="The namespace's name.")]
) -> Response:
    """With all its documents, also those that are still on their way. If the answer does not come, ask again: it goes on."""
    gateway = gateway_of(request)
    try:
        name = Namespace(tidy_namespace(namespace))
    except ValueError:
        raise _not_found(namespace) from None
    gone = await gateway.run_heavy(delete_namespace, principal.tenant_id, name, gateway.resources)
    gateway.namespaces.forget(principal.tenant_id, name)
    if gone is None:
        raise _not_found(name)
    shown = {"namespace": gone.namespace, "documents": gone.documents, "generations": gone.generations}
    return json_response(shown)


def _not_found(name: str) -> Problem:
    return Problem(404, "namespace_not_found", f"There is no namespace {name[:64]!r}.")
