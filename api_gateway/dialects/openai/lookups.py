"""Parts that the routes of this dialect share: errors, their description, look-ups and pages."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, TypeVar

import orjson
from fastapi import Depends, Response
from pydantic import BaseModel
from starlette.types import Scope

from api_gateway.dialects.openai import objects
from api_gateway.http.caller import Caller
from api_gateway.http.fields import tidy_namespace
from api_gateway.http.problems import Problem, quoted
from api_gateway.http.route_descriptions import Parameter, answers
from api_gateway.resources.route_parts import existing, parse
from pipeline.administration import edit_vector_stores
from pipeline.administration.edit_vector_stores import NoSuchFile, Put, put_files
from pipeline.ingestion.accept import AcceptedJob
from pipeline.records import JobId, Namespace
from pipeline.vector_stores.collection import Attached, ListPosition, Status, VectorStore
from workers import dispatch

# OpenAI's clients expect 400 for every invalid request.
_STATUS: Final = {415: 400, 422: 400, 412: 409}
_TYPES: Final = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class OpenAIErrorDetail(BaseModel):
    """An error. ``param``: the field at fault, with dots between its parts."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIError(BaseModel):
    """An error in this dialect."""

    error: OpenAIErrorDetail


def error_response(problem: Problem, scope: Scope) -> Response:
    """Return a problem in this dialect, with its headers."""
    status = _STATUS.get(problem.status, problem.status)
    first = problem.errors[0] if problem.errors else {}
    kind = "server_error" if status >= 500 else _TYPES.get(status, "invalid_request_error")
    message = problem.detail
    if status >= 500:
        message = f"{message} (request {scope.get('state', {}).get('request_id', '')})"
    param = str(first.get("pointer", "")).strip("/").replace("/", ".") or None
    body = {"error": {"message": message, "type": kind, "param": param, "code": problem.code}}
    return Response(orjson.dumps(body), status_code=status, headers=problem.headers, media_type="application/json")


def answered(
    summary: str, shape: type[BaseModel] | None, meaning: str, *problems: int, content: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the arguments that describe a route to its decorator, with this dialect's status numbers; 401, 403, 500 and
    503 always."""
    described = answers(200, shape, meaning, *sorted({401, 403, 503, *problems}), content=content)
    described["default"] = {"description": "Every error has this form."}  # otherwise the framework adds one of its own
    for status, response in described.items():
        if status != 200:
            response.pop("content", None)
            response["model"] = OpenAIError
    return {"summary": summary, "responses": described}


def wrong(param: str, detail: str) -> Problem:
    """Return Problem(400) for one invalid field."""
    return Problem(422, "invalid_value", f"{param} {detail}.", errors=[{"pointer": f"/{param}", "detail": detail}])


def no_file(file_id: str) -> Problem:
    """Return Problem(404) for a file."""
    return Problem(404, "file_not_found", f"There is no file {quoted(file_id)}.")


def no_store(store_id: str) -> Problem:
    """Return Problem(404) for a vector store."""
    return Problem(404, "vector_store_not_found", f"There is no vector store {quoted(store_id)}.")


def no_batch(batch_id: str) -> Problem:
    """Return Problem(404) for a batch of files."""
    return Problem(404, "file_batch_not_found", f"There is no batch of files {quoted(batch_id)}.")


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
    return Namespace(parse(tidy_namespace, store_id, no_store(store_id)))


def store_of(caller: Caller, store_id: str, *, in_use: bool = False) -> VectorStore:
    """Return a vector store, unless it is to be used (``in_use``) and has expired. Blocking. Raises Problem(404) or
    Problem(400)."""
    stored = edit_vector_stores.find_store(caller.tenant_id, caller.use, namespace_of(store_id))
    store = existing(stored, no_store(store_id))
    if in_use and store.has_expired(datetime.now(UTC)):
        detail = f"The vector store {store.namespace} has expired, and what was in it is gone."
        raise Problem(400, "vector_store_expired", detail)
    return store


def file_of(caller: Caller, store_id: str, file_id: str) -> Attached:
    """Return a file in a vector store. Blocking. Raises Problem 404."""
    namespace = namespace_of(store_id)
    files = edit_vector_stores.find_files(caller.tenant_id, caller.use, namespace, [file_id])
    if file_id not in files:
        store_of(caller, store_id)
        raise no_file(file_id)
    return files[file_id]


def put(caller: Caller, namespace: Namespace, puts: list[Put], *, opening: VectorStore | None = None) -> AcceptedJob:
    """Put files into a vector store. Blocking. Raises Problem(404) for a file that does not exist."""
    tenant_id, use, request_id = caller.tenant_id, caller.use, caller.request_id
    try:
        return put_files(
            tenant_id, namespace, puts, use, notify=dispatch.notify, request_id=request_id, opening=opening
        )
    except NoSuchFile as error:
        raise no_file(str(error)) from None


def files_page(caller: Caller, namespace: Namespace, query: ListQuery, *, job_id: JobId | None = None) -> Response:
    """Return a page of the files in a vector store, or of those that a job was the last to add. Blocking. Raises
    Problem for a bad cursor."""
    files, position = edit_vector_stores.list_files(
        caller.tenant_id,
        namespace,
        query.start,
        caller.use,
        newest_first=query.newest_first,
        status=query.status,
        job_id=job_id,
        limit=query.limit + 1,
    )
    page, has_more = cut(files, query.limit, position)
    return objects.page_response([objects.store_file(file) for file in page], has_more=has_more)
