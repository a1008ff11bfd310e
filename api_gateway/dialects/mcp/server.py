"""The MCP server: the official package implements both generations of the protocol; this module defines tools and
resources.

The server keeps no sessions: every request carries its key and is complete in itself, so any gateway process can serve
it and a misbehaving client leaves no state behind.
"""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote, unquote

import orjson
import structlog
from mcp import MCPError, types
from mcp.server import Server, ServerRequestContext
from mcp.server.caching import CacheHint
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from pydantic import ValidationError
from starlette.requests import Request

from api_gateway.dialects.mcp import tool_calls
from api_gateway.dialects.mcp.endpoint import MOST_BODY_BYTES, failed_result
from api_gateway.dialects.mcp.tool_calls import TOOLS, ToolEntry
from api_gateway.gateway import Gateway
from api_gateway.http.auth import require_scope
from api_gateway.http.bodies import Decoded, refuse_flaws
from api_gateway.http.caller import Caller
from api_gateway.http.problems import Problem, from_error, internal, places, quoted
from api_gateway.live.wakes import stays_connected
from pipeline.database.worker_heartbeats import installed_version
from pipeline.errors import PipelineError


def listed(scopes: Collection[str]) -> list[types.Tool]:
    """Return the tools that a key with these scopes may call."""
    return [entry.listed for entry in TOOLS.values() if entry.scope in scopes]


log = structlog.get_logger(__name__)

RESOURCE_NOT_FOUND = -32002
_FRESH_MS = 60_000
_JSON = "application/json"
_NAMESPACE: Final = "chordwise://namespaces/"
_JOB: Final = "chordwise://jobs/"
_INSTRUCTIONS = (
    "Chordwise searches documents that were put into named knowledge bases (namespaces). Begin with search; cite what you "
    "use by the url of its result. fetch reads a document whole; explain says why a passage was found, or was not."
)

Context = ServerRequestContext[Any, Request]


@asynccontextmanager
async def serving(gateway: Gateway) -> AsyncIterator[StreamableHTTPSessionManager]:
    """Yield the ASGI application for requests, valid while the block runs."""
    manager = StreamableHTTPSessionManager(
        make_server(gateway),
        json_response=True,
        stateless=True,
        max_request_body_size=min(MOST_BODY_BYTES, gateway.settings.max_body_bytes),
    )
    async with manager.run():
        yield manager


def make_server(gateway: Gateway) -> Server[Any]:
    """Return the server of one gateway. The state of the HTTP request identifies the caller."""
    handlers = _Handlers(gateway)
    return Server(
        "chordwise",
        version=installed_version(),
        title="Chordwise",
        instructions=_INSTRUCTIONS,
        cache_hints={
            "tools/list": CacheHint(ttl_ms=_FRESH_MS, scope="private"),
            "resources/templates/list": CacheHint(ttl_ms=_FRESH_MS, scope="private"),
        },
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
    )


class _Handlers:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def list_tools(self, context: Context, _: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed(self._caller(context).principal.scopes))

    async def call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Return errors of a tool as its result, so that the agent can read them and try again."""
        entry = TOOLS.get(params.name)
        if entry is None:
            raise MCPError(INVALID_PARAMS, f"There is no tool {quoted(params.name)}; there are: {', '.join(TOOLS)}.")
        try:
            result = await self._call(entry, self._caller(context), params.arguments or {})
        except Problem as problem:
            return _failed(problem)
        except PipelineError as error:
            log.warning("tool_failed", tool=entry.name, code=error.code)
            return _failed(from_error(error))
        except Exception as error:
            log.exception("tool_failed", tool=entry.name, code="internal_error", error=type(error).__name__)
            return _failed(internal())
        text = orjson.dumps(result, option=orjson.OPT_UTC_Z).decode()
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=text)], structured_content=orjson.loads(text)
        )

    async def list_resources(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        caller = self._caller(context)
        after = params.cursor if params is not None else None
        try:
            page = await self._gateway.run(tool_calls.namespaces, caller, after=after)
        except PipelineError as error:
            raise _unreadable(from_error(error)) from None
        resources = [
            types.Resource(
                uri=_NAMESPACE + quote(row["namespace"], safe=""),
                name=row["namespace"],
                description=f"A knowledge base of {row['documents']} documents in {row['chunks']} passages.",
                mime_type=_JSON,
            )
            for row in page["namespaces"]
        ]
        return types.ListResourcesResult(resources=resources, next_cursor=page["next"])

    async def list_templates(
        self, context: Context, _: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        templates = [_template(_NAMESPACE + "{namespace}", "namespace", "A knowledge base and its first documents.")]
        if "write" in self._caller(context).principal.scopes:
            templates.append(_template(_JOB + "{job_id}", "job", "The progress of an ingestion."))
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri, caller = str(params.uri), self._caller(context)
        try:
            if uri.startswith(_NAMESPACE):
                content = await tool_calls.namespace(caller, unquote(uri.removeprefix(_NAMESPACE)))
            elif uri.startswith(_JOB):
                require_scope(caller.principal, "write")
                content = await self._gateway.run(tool_calls.job, caller, uri.removeprefix(_JOB))
            else:
                raise Problem(404, "resource_not_found", "There is no such resource.")
        except Problem as problem:
            raise _unreadable(problem) from None
        except PipelineError as error:
            raise _unreadable(from_error(error)) from None
        text = orjson.dumps(content, option=orjson.OPT_UTC_Z).decode()
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, text=text, mime_type=_JSON)])

    async def _call(self, entry: ToolEntry, caller: Caller, arguments: dict[str, Any]) -> dict[str, Any]:
        require_scope(caller.principal, entry.scope)
        try:
            sent = entry.takes.model_validate(refuse_flaws(Decoded(arguments, suspicious=True)))
        except ValidationError as error:
            flaws = [
                f"{flaw['pointer'].removeprefix('/') or 'the arguments'} {flaw['detail']}" for flaw in places(error)
            ]
            raise Problem(422, "invalid_arguments", f"{'; '.join(flaws[:8])}.") from None
        return await entry.call(caller, sent)

    def _caller(self, context: Context) -> Caller:
        request = context.request
        assert request is not None  # every call comes over HTTP
        caller: Caller = request.state.caller
        # The package reads the client's messages itself, and ends a call whose client has left.
        return replace(caller, request=Request(request.scope, stays_connected))


def _failed(problem: Problem) -> types.CallToolResult:
    return types.CallToolResult.model_validate(failed_result(problem))


def _unreadable(problem: Problem) -> MCPError:
    codes = {404: RESOURCE_NOT_FOUND, 403: INVALID_PARAMS}
    return MCPError(codes.get(problem.status, INTERNAL_ERROR), problem.detail, {"code": problem.code})


def _template(uri: str, name: str, description: str) -> types.ResourceTemplate:
    return types.ResourceTemplate(uri_template=uri, name=name, description=description, mime_type=_JSON)
