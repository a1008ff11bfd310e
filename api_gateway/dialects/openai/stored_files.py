"""Files: stored as sent, also before and after they are in a vector store."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Response
from fastapi import Query as Parameter
from starlette.datastructures import FormData, UploadFile

from api_gateway.dialects.openai import objects
from api_gateway.dialects.openai.lookups import Order, answered, cut, no_file, wrong
from api_gateway.http.caller import Caller, FullReader, Writer
from api_gateway.http.fields import holds_control_characters
from api_gateway.http.problems import Problem
from api_gateway.http.responses import json_response
from api_gateway.resources.ingestion.files import sent_form
from api_gateway.resources.route_parts import existing
from pipeline.administration import keep_files
from pipeline.administration.keep_files import ID_PREFIX, forget_file, keep_file
from pipeline.vector_stores.collection import StoredFile, made_at

router = APIRouter()

_PURPOSES: Final = ("assistants", "batch", "fine-tune", "vision", "user_data", "evals")
_SHORTEST_S, _LONGEST_S = 3600, 2_592_000
_LONGEST_NAME, _LONGEST_TYPE = 255, 127  # characters
_FORM_BYTES: Final = 64 * 1024  # other parts of a form beside its file
_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file", "purpose"],
                    "properties": {
                        "file": {"type": "string", "format": "binary"},
                        "purpose": {"type": "string", "enum": list(_PURPOSES)},
                        "expires_after[anchor]": {"type": "string", "enum": ["created_at"]},
                        "expires_after[seconds]": {"type": "integer", "minimum": _SHORTEST_S, "maximum": _LONGEST_S},
                    },
                }
            }
        },
    }
}


@router.post(
    "/files",
    **answered("Upload a file", objects.FileObject, "The file; it is durable.", 400, 413, 429),
    openapi_extra=_FORM,
)
async def upload(caller: Writer) -> Response:
    """Store a file. It becomes searchable once it is put into a vector store."""
    limit = min(caller.gateway.settings.max_body_bytes, caller.gateway.settings.max_document_bytes + _FORM_BYTES)
    async with sent_form(caller, limit) as sent:
        stored = await caller.gateway.run_heavy(_keep, caller, sent)
    return json_response(objects.file(stored))


@router.get("/files", **answered("List files", objects.FileList, "One page of files.", 400))
async def list_files(
    caller: FullReader,
    limit: Annotated[int, Parameter(ge=1, le=10_000, description="Entries per page.")] = 10_000,
    order: Order = "desc",
    after: Annotated[str | None, Parameter(max_length=64, description="The last entry of the previous page.")] = None,
    purpose: Annotated[str | None, Parameter(max_length=32, description="Only those of this purpose.")] = None,
) -> Response:
    """List the stored files, newest first unless `order` says otherwise."""
    at = None if after is None else made_at(ID_PREFIX, after)
    if after is not None and at is None:
        raise wrong("after", "is not the id of a file")
    files = await caller.gateway.run(
        keep_files.list_files,
        caller.tenant_id,
        caller.use,
        after=None if at is None or after is None else (at, after),
        limit=limit + 1,
        newest_first=order == "desc",
        purpose=purpose,
    )
    entries, has_more = cut(files, limit, None)
    return objects.page_response([objects.file(stored) for stored in entries], has_more=has_more)


@router.get("/files/{file_id}", **answered("Get a file", objects.FileObject, "The file, without its bytes.", 404))
async def get_file(caller: FullReader, file_id: str) -> Response:
    """Return a file. Its vector stores list it."""
    return json_response(objects.file(await caller.gateway.run(_stored, caller, file_id)))


@router.get(
    "/files/{file_id}/content",
    **answered("Download a file", None, "The bytes, as they were sent.", 404, content={"application/octet-stream": {}}),
)
async def content(caller: FullReader, file_id: str) -> Response:
    """Return the bytes exactly as sent, always as an attachment of a generic type."""

    def read() -> bytes:
        _stored(caller, file_id)
        return existing(keep_files.read_file(caller.tenant_id, caller.use, file_id), no_file(file_id))

    headers = {"Content-Disposition": "attachment"}
    return Response(await caller.gateway.run_heavy(read), headers=headers, media_type="application/octet-stream")


@router.delete(
    "/files/{file_id}", **answered("Delete a file", objects.Deleted, "Deleted, here and in every vector store.", 404)
)
async def delete(caller: Writer, file_id: str) -> Response:
    """Delete a file from the storage and from every vector store. Searches stop finding it at once."""
    existing(await caller.gateway.run(forget_file, caller.tenant_id, file_id, caller.use), no_file(file_id))
    return json_response({"id": file_id, "object": "file", "deleted": True})


def _stored(caller: Caller, file_id: str) -> StoredFile:
    return existing(keep_files.find_file(caller.tenant_id, file_id, caller.use), no_file(file_id))


def _keep(caller: Caller, sent: FormData) -> StoredFile:
    file, purpose = sent.get("file"), sent.get("purpose")
    if not isinstance(file, UploadFile):
        raise wrong("file", "is required")
    if purpose not in _PURPOSES:
        raise wrong("purpose", f"must be one of {', '.join(_PURPOSES)}")
    body = file.file.read()
    limit = caller.gateway.settings.max_document_bytes
    if len(body) > limit:
        detail = f"The file has {len(body)} bytes; at most {limit} are taken (CHORDWISE_MAX_DOCUMENT_BYTES)."
        raise Problem(413, "file_too_large", detail, errors=[{"pointer": "/file", "detail": "is too large"}])
    if not body:
        raise wrong("file", "is empty")
    declared = file.content_type
    usable = declared is not None and declared.isascii() and declared.isprintable() and len(declared) <= _LONGEST_TYPE
    return keep_file(
        caller.tenant_id,
        body,
        caller.use,
        filename=_name(file.filename),
        purpose=str(purpose),
        declared_type=declared if usable else None,
        expires_after_s=_expiry(sent),
    )


def _name(sent: str | None) -> str:
    """Return the file's own name, without folders. Raises Problem for an invalid name."""
    name = (sent or "").replace("\\", "/").rpartition("/")[2]
    if not 1 <= len(name) <= _LONGEST_NAME or holds_control_characters(name):
        raise wrong("file", f"needs a name of 1 to {_LONGEST_NAME} characters, and no control characters among them")
    return name


def _expiry(sent: FormData) -> int | None:
    anchor, seconds = sent.get("expires_after[anchor]"), sent.get("expires_after[seconds]")
    if anchor is None and seconds is None:
        return None
    if anchor != "created_at":
        raise wrong("expires_after", "must have the anchor created_at")
    if not isinstance(seconds, str) or not (seconds.isascii() and seconds.isdigit()) or len(seconds) > 8:
        raise wrong("expires_after", "must have a whole number of seconds")
    if not _SHORTEST_S <= int(seconds) <= _LONGEST_S:
        raise wrong("expires_after", f"must have between {_SHORTEST_S} and {_LONGEST_S} seconds")
    return int(seconds)
