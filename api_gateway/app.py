"""The ASGI application: routes, error table, lifespan. Importing this does nothing else."""

import asyncio
import functools
import http
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import structlog
from anyio import to_thread
from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from api_gateway.console import page, sign_in, sign_on
from api_gateway.dialects import dify
from api_gateway.dialects import openai as openai_dialect
from api_gateway.dialects.mcp import endpoint as mcp_endpoint
from api_gateway.dialects.mcp.endpoint import McpOpening
from api_gateway.gateway import SILENT_S, Gateway
from api_gateway.http import openapi, problems
from api_gateway.http.conditional_requests import ConditionalRequests, check_preconditions
from api_gateway.http.early_refusal import EarlyRefusal
from api_gateway.http.idempotency import IdempotentPosts, Replay, claim_key
from api_gateway.http.operations import methods_of
from api_gateway.http.problems import Problem
from api_gateway.http.rate_limits import RateLimits
from api_gateway.http.request_context import RequestContext
from api_gateway.live.readiness import keep_sign
from api_gateway.resources import (
    api_sources,
    audit,
    dead_letters,
    dictionaries,
    doctor,
    embedding_migrations,
    entities,
    events,
    health,
    jobs,
    keys,
    namespaces,
    overview,
    tenants,
    usage,
    webhooks,
)
from api_gateway.resources.ingestion import (
    archives,
    chunks,
    documents,
    examples,
    files,
    followed_sources,
    preview,
    readers,
    sources,
    stored_documents,
)
from api_gateway.resources.retrieval import (
    experiments,
    explanations,
    feedback,
    profiles,
    queries,
    query_batches,
    recall,
    written_answers,
)
from api_gateway.resources.route_parts import describe_bodies
from pipeline.channels.channel import installed_channels
from pipeline.database.redis_connections import async_redis_of
from pipeline.errors import (
    OutcomeUnknown,
    PipelineError,
    StoreFull,
    StoreUnavailable,
    Unavailable,
)
from pipeline.maintenance import examine_stores, migrate_schema
from pipeline.resources import Resources
from pipeline.retrieval.build_plan import check_fusion
from pipeline.sandbox.accepted_formats import accept_formats
from pipeline.settings import Settings
from pipeline.telemetry import tracing

log = structlog.get_logger(__name__)

_ROUTERS = (
    queries,  # routes are matched in order, and this one is called most often
    documents,
    readers,
    stored_documents,
    files,
    examples,
    jobs,
    query_batches,
    events,
    dead_letters,
    webhooks,
    api_sources,
    explanations,
    written_answers,
    recall,
    feedback,
    profiles,
    experiments,
    sources,
    followed_sources,
    chunks,
    dictionaries,
    entities,
    preview,
    namespaces,
    archives,
    tenants,
    keys,
    usage,
    audit,
    embedding_migrations,
    doctor,
    health,
    overview,
    sign_on,  # before the files of the console, which are all below its path
    page,
    sign_in,
    openapi,
    dify,
    mcp_endpoint,
)


def create_app(settings: Settings, resources: Resources | None = None) -> FastAPI:
    """Return the gateway as an ASGI application. It connects to nothing before it starts or receives a request. Raises
    Misconfigured."""
    app = FastAPI(
        lifespan=_lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # `RequestContext` traces and counts
        dependencies=[Depends(claim_key), Depends(check_preconditions)],  # of every route, ahead of its own
    )
    accept_formats(settings)  # decides which content types are accepted
    check_fusion(settings)
    sign_on.check(settings)
    installed_channels()  # decides which methods and parameters are accepted
    app.state.gateway = Gateway(settings, resources or Resources(settings, silent_s=SILENT_S))
    for module in (*_ROUTERS, *openai_dialect.MODULES):
        describe_bodies(module.router)
    for router in (*(module.router for module in _ROUTERS), *openai_dialect.routers()):
        app.include_router(router)
    problems.DIALECTS["/dify/"] = dify.error_response
    for middleware in (
        ConditionalRequests,
        IdempotentPosts,
        RateLimits,
        RequestContext,
        EarlyRefusal,
    ):  # the last is the outermost
        app.add_middleware(middleware)
    app.add_exception_handler(Problem, _own_answer)
    app.add_exception_handler(PipelineError, _pipeline_error)
    app.add_exception_handler(Replay, _own_answer)
    app.add_exception_handler(RequestValidationError, _invalid_parameters)
    app.add_exception_handler(HTTPException, _http_exception)
    app.state.methods = methods_of(
        [("", module.router) for module in _ROUTERS]
        + [(openai_dialect.PREFIX, module.router) for module in openai_dialect.MODULES]
    )
    app.openapi = functools.partial(openapi.describe, app)  # type: ignore[method-assign]
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Refuse to start on an incompatible schema; while running, listen on the wake channel."""
    gateway: Gateway = app.state.gateway
    use = gateway.resources
    await to_thread.run_sync(migrate_schema.check, use.mysql, use.postgres, gateway.settings)
    gateway.installation_id = await to_thread.run_sync(use.installation.confirm)
    await to_thread.run_sync(gateway.quick.installation.confirm)
    tracing.warm_up()
    client = async_redis_of(gateway.settings.redis_url.get_secret_value(), socket_connect_timeout=2.0)
    gateway.started()
    gateway.spawn(gateway.warm_up())
    gateway.spawn(overview.keep_history(gateway))
    gateway.spawn(keep_sign(gateway))
    listener = asyncio.create_task(gateway.wakes.listen(client))
    app.state.mcp = McpOpening(gateway)
    try:
        yield
    finally:
        await app.state.mcp.close()
        gateway.wakes.release()
        listener.cancel()
        with suppress(asyncio.CancelledError):
            await listener
        await client.aclose()
        await gateway.close()
        await to_thread.run_sync(tracing.close)


async def _response(problem: Problem, request: Request) -> Response:
    """Return the response for a problem, after a moment if there are too many requests: `Admission.hold_back`."""
    if problem.status == 429:
        await request.app.state.gateway.admission.hold_back()
    return problem.response(request.scope)


async def _own_answer(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem | Replay)
    return error.response(request.scope) if isinstance(error, Replay) else await _response(error, request)


async def _pipeline_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, PipelineError)
    problem = problems.from_error(error)
    if isinstance(error, StoreUnavailable) and not isinstance(error, OutcomeUnknown) and _accepts(request):
        problem.detail = f"{problem.detail.rstrip('.')}; nothing was accepted."
    if isinstance(error, Unavailable):
        if isinstance(error, StoreFull):
            await to_thread.run_sync(examine_stores.note_full, error, request.app.state.gateway.quick)
        log.warning("dependency_unavailable", code=error.code, error=str(error))
    elif problem.status >= 500:
        log.error("request_failed", code=error.code, exc_info=error)
    return await _response(problem, request)


def _accepts(request: Request) -> bool:
    """Return whether the route accepts work, in one transaction."""
    return getattr(request.scope.get("route"), "status_code", None) == http.HTTPStatus.ACCEPTED


async def _invalid_parameters(request: Request, error: Exception) -> Response:
    """Convert FastAPI's validation errors, which concern only paths and query strings: the routes read bodies
    themselves."""
    assert isinstance(error, RequestValidationError)
    errors = [
        {"pointer": problems.pointer(flaw["loc"][1:]), "in": str(flaw["loc"][0]), "detail": problems.sentence(flaw)}
        for flaw in error.errors()
    ]
    names = ", ".join(sorted({flaw["pointer"].removeprefix("/") for flaw in errors}))
    problem = problems.invalid(errors, detail=f"The parameters are not valid: {names}.")
    return problem.response(request.scope)


async def _http_exception(request: Request, error: Exception) -> Response:
    """Convert errors of the framework itself: unknown routes and methods."""
    assert isinstance(error, HTTPException)
    path = problems.instance_of(request.scope)
    if error.status_code == 404:
        problem = Problem(404, "route_not_found", f"Nothing exists at {path}.")
    elif error.status_code == 405:
        allowed = ", ".join(_methods_at(request))
        detail = f"{path} does not take {request.method}; it takes {allowed}."
        problem = Problem(405, "method_not_allowed", detail, headers={"Allow": allowed})
    else:
        problem = Problem(error.status_code, "http_error", str(error.detail), headers=error.headers)
    return problem.response(request.scope)


def _methods_at(request: Request) -> list[str]:
    """Return all methods that routes accept at this path; the framework names only those of the first matching route."""
    template = getattr(request.scope.get("route"), "path", "")
    return sorted(request.app.state.methods.get(template, {"GET"}))
