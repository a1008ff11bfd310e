"""Sources that are followed: stores of files whose documents are kept current by runs."""

from functools import partial
from typing import Annotated, ClassVar

from fastapi import APIRouter, Response
from pydantic import Field

from api_gateway.http.caller import Caller, Writer
from api_gateway.http.fields import NewNamespaceName, NewSourceId, TenantWire, Wire, request_of
from api_gateway.http.problems import Problem, invalid
from api_gateway.http.responses import json_response
from api_gateway.http.route_descriptions import Parameter, route
from api_gateway.resources.ingestion.sources import Id, InNamespace, not_found, source_view
from api_gateway.resources.route_parts import Json, existing
from api_gateway.resources.shapes import accepted_response
from chordwise.contract.job import JobAccepted
from chordwise.contract.source import SourceDeleted, SourceInfo, SourceRule
from pipeline.administration import follow_sources as flow
from pipeline.ingestion.accept import AcceptedJob
from pipeline.outbound.post_client import NotAllowed
from pipeline.records import JobId, Namespace
from workers import dispatch


class SourceRuleIn(request_of(SourceRule, Wire)):  # type: ignore[misc]  # computed from the contract
    """A rule for the files of a source."""


class SourceRequest(TenantWire):
    """A source to follow: a folder below one that the operator allows (`file://`), a store (`s3://`, `gs://`, `az://`,
    `sftp://`, `webdav://`, `webdavs://`), a git repository (`git+https://host/repository@branch#folder`), a sitemap or an
    index on a web server, or what an installed package reads. `secret`: what the store asks for, by name; it is never
    shown again. Following a URL again changes its interval and its rules, and its secret if one is given."""

    example: ClassVar = {
        "url": "s3://company/handbook",
        "namespace": "kb",
        "every_seconds": 3600,
        "rules": [{"path": "hr/", "tags": ["hr"], "readers": ["group:hr"]}],
    }

    url: Annotated[str, Field(min_length=3, max_length=2048)]
    namespace: NewNamespaceName
    source_id: NewSourceId | None = None
    every_seconds: Annotated[int, Field(ge=60, le=30 * 86_400)] = 3600
    rules: Annotated[list[SourceRuleIn], Field(max_length=100, default_factory=list)]
    secret: Annotated[dict[str, Annotated[str, Field(max_length=16_384)]], Field(max_length=16)] | None = None


router = APIRouter(tags=["sources"])


@router.post(
    "/v1/sources",
    **route("Follow a source", SourceInfo, "It is followed; its first run has begun.", 409, status=201,
            also={200: "It was followed already, and has these rules now."}),
)  # fmt: skip
async def follow(caller: Writer, sent: Json[SourceRequest]) -> Response:
    """Follow a source: each run lists it, takes in what is new or changed, and removes what is gone. The host must be on the
    public internet, unless the operator permits its network."""
    try:
        source_id, is_new = await caller.gateway.run_calling(
            partial(
                flow.follow,
                every_s=sent.every_seconds,
                rules=[rule.model_dump(exclude_none=True) for rule in sent.rules],
                secret=sent.secret,
                source_id=sent.source_id,
                request_id=caller.request_id,
                notify=dispatch.notify_workers,
            ),
            caller.tenant_id,
            Namespace(sent.namespace),
            sent.url,
            caller.use,
        )
    except NotAllowed as error:
        errors = [{"pointer": "/url", "detail": str(error)}]
        raise invalid(errors, code=error.code, detail=error.sentence) from None
    except flow.TooManyFollowed as error:
        raise Problem(409, "too_many_sources", str(error)) from None
    view = await source_view(caller, Namespace(sent.namespace), source_id)
    return json_response(view, status=201 if is_new else 200)


@router.post(
    "/v1/sources/{source_id}/run",
    **route("Run a source now", JobAccepted, "The job of its run, also of one under way.", 404, status=202),
)
async def run(caller: Writer, source_id: Id, namespace: InNamespace) -> Response:
    """Begin a run now, also of a paused source. Its first item is the run itself, the others are documents."""
    return await _run(caller, source_id, namespace, confirm=False)


@router.post(
    "/v1/sources/{source_id}/confirm",
    **route("Confirm removals", JobAccepted, "The job of the run that removes them.", 404, 409, status=202),
)
async def confirm(caller: Writer, source_id: Id, namespace: InNamespace) -> Response:
    """Let a run remove the documents that are gone from the source, and that waited because they are more than a fifth. The
    run asks again if more are gone by then."""
    view = await source_view(caller, namespace, source_id)
    if view.followed is None or view.followed.held_removals is None:
        raise Problem(409, "nothing_to_confirm", "No documents of this source wait for a confirmation.")
    return await _run(caller, source_id, namespace, confirm=True)


@router.post("/v1/sources/{source_id}/pause", **route("Pause a source", SourceInfo, "The source, paused.", 404))
async def pause(caller: Writer, source_id: Id, namespace: InNamespace) -> Response:
    """Begin no run by itself any more. Its documents stay."""
    return await _scheduled(caller, source_id, namespace, paused=True)


@router.post("/v1/sources/{source_id}/resume", **route("Resume a source", SourceInfo, "The source, due now.", 404))
async def resume(caller: Writer, source_id: Id, namespace: InNamespace) -> Response:
    """Follow a paused source again; a run begins at once."""
    return await _scheduled(caller, source_id, namespace, paused=False)


@router.delete(
    "/v1/sources/{source_id}", **route("Delete a source", SourceDeleted, "Deleted; the number of its documents.", 404)
)
async def delete(
    caller: Writer,
    source_id: Id,
    namespace: InNamespace,
    keep_documents: Annotated[bool, Parameter(description="Follow it no longer, and leave its documents.")] = False,
) -> Response:
    """Delete a source with all its documents, also those being ingested, and follow it no longer. If the answer is lost,
    repeat the request: it continues."""
    deleted = await caller.gateway.run_heavy(
        partial(flow.remove, keep_documents=keep_documents), caller.tenant_id, namespace, source_id, caller.use
    )
    body = {"source_id": source_id, "namespace": namespace, "documents": existing(deleted, not_found(source_id))}
    return json_response(body)


async def _run(caller: Caller, source_id: str, namespace: Namespace, *, confirm: bool) -> Response:
    job_id = await caller.gateway.run(
        partial(flow.run_now, request_id=caller.request_id, notify=dispatch.notify_workers, confirm=confirm),
        caller.tenant_id,
        namespace,
        source_id,
        caller.use,
    )
    found: JobId = existing(job_id, not_found(source_id))
    accepted = AcceptedJob(tenant_id=caller.tenant_id, job_id=found, request_id=caller.request_id, total=1, due=1)
    return accepted_response(accepted)


async def _scheduled(caller: Caller, source_id: str, namespace: Namespace, *, paused: bool) -> Response:
    change = partial(flow.schedule, paused=paused)
    if not await caller.gateway.run(change, caller.tenant_id, namespace, source_id, caller.use):
        raise not_found(source_id)
    return json_response(await source_view(caller, namespace, source_id))
