"""The door of the MCP server: who may come in is decided as everywhere, and from where."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from api_gateway.auth import Requires
from api_gateway.gateway import gateway_of
from api_gateway.problems import Problem
from api_gateway.routes.documenting import answers
from pipeline.stores.tenants import Principal

router = APIRouter(tags=["mcp"])

_CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
_BODY = {"required": True, "content": {_JSON: {"schema": {"type": "object"}, "example": _CALL}} for _JSON in ["application/json"]}


async def from_an_allowed_origin(request: Request) -> None:
    """A dependency. Raises Problem 403 for a web page that is not named in the settings: a page that somebody happens to
    visit must not reach a gateway on his own machine."""
    origin = request.headers.get("origin")
    if origin is not None and origin.rstrip("/") not in gateway_of(request).settings.mcp_allowed_origins:
        raise Problem(403, "origin_not_allowed", "Web pages from this origin may not use MCP here.")


async def _anyone(request: Request, principal: Annotated[Principal, Depends(Requires("read"))]) -> Principal:
    request.state.principal = principal
    return principal
