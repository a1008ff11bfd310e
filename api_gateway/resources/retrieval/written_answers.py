"""Answers in words, which a language model writes from the passages of a query."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, ClassVar

import orjson
from fastapi import APIRouter, Response
from pydantic import Field
from starlette.types import Receive, Scope, Send

from api_gateway.http.caller import Reader
from api_gateway.http.fields import Shape, Wire
from api_gateway.http.problems import Problem, from_error
from api_gateway.http.responses import json_response
from api_gateway.http.route_descriptions import reference, route
from api_gateway.live.ask import current_state, not_found
from api_gateway.live.computations import compute
from api_gateway.live.event_streams import HEARTBEAT_S, PING, EventStream, Write, event, raw_event
from api_gateway.live.wakes import stays_connected
from api_gateway.resources.retrieval.explanations import not_answered
from api_gateway.resources.retrieval.queries import QueryInPath
from api_gateway.resources.route_parts import Json, existing
from chordwise.contract.explanation import WrittenAnswer
from pipeline.errors import PipelineError
from pipeline.jobs.computation import ComputationKind


class WriteRequest(Wire):
    """How long the language model may take, in milliseconds."""

    example: ClassVar = {"deadline_ms": 30_000}
    most_bytes: ClassVar = 4 * 1024

    deadline_ms: Annotated[int, Field(ge=200, le=60_000)] = 30_000
    tenant_id: str | None = None


class WrittenText(Shape):
    """`data` of `text`: the next part of the text. Its citations are not checked yet."""

    delta: str


OnText = Callable[[str], Awaitable[None]]


class AnswerStream(EventStream):
    """Stream the text as the model writes it, then the checked answer, or the problem. ``write`` writes the answer; it
    ends, and the model with it, when the client disconnects."""

    def __init__(self, write: Callable[[Receive, OnText], Awaitable[dict[str, Any]]]) -> None:
        super().__init__()
        self._write = write

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events. Raises ClientDisconnect."""

        async def send_all(write: Write) -> None:
            try:
                written = await self._write(stays_connected, _Told(write).tell)
            except (Problem, PipelineError) as error:
                problem = error if isinstance(error, Problem) else from_error(error)
                await write(raw_event("error", "error", bytes(problem.response(scope).body)))
            else:
                await write(event("finished", "finished", written))

        await self.stream(receive, send, send_all)


class _Told:
    """Sends what a text has more than before, and a sign of life while it does not grow."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._characters = 0
        self._due = asyncio.get_running_loop().time() + HEARTBEAT_S

    async def tell(self, text: str) -> None:
        """Send the new part of ``text``."""
        now = asyncio.get_running_loop().time()
        if delta := text[self._characters :]:
            self._characters = len(text)
            await self._write(event("text", str(self._characters), {"delta": delta}))
        elif now >= self._due:
            await self._write(PING)
        else:
            return
        self._due = now + HEARTBEAT_S


router = APIRouter(tags=["retrieval"])

_EVENTS = {"text/event-stream": {"schema": {"type": "string"}}}
_MEANING = "The answer in words, or the reason why there is none."
reference(WrittenText, "serialization")  # the data of an event, which FastAPI cannot discover


@router.post(
    "/v1/queries/{query_id}/answer",
    **route("Write an answer from the hits", WrittenAnswer, _MEANING, 404, 409, content=_EVENTS),
)
async def write(caller: Reader, query_id: QueryInPath, body: Json[WriteRequest]) -> Response:
    """Have the installation's language model answer the query from its context, citing passages by number. The model
    gets masked text and nothing but the query and these passages; citations of others are removed. Needs
    `CHORDWISE_LLM_MODEL` (409 without it). With `Accept: text/event-stream` the text is streamed: `text` for each part
    as it is written, then `finished` with the same JSON, its citations checked, or `error` with a problem. Closing the
    connection stops the model."""
    state = await caller.gateway.run(current_state, caller.tenant_id, query_id, caller.gateway)
    existing(state.answer, not_answered())
    if not caller.gateway.settings.llm_model:
        raise Problem(409, "no_language_model", "No language model is configured: CHORDWISE_LLM_MODEL is not set.")

    async def written(receive: Receive | None = None, on_text: OnText | None = None) -> dict[str, Any]:
        asked = {"query_id": query_id, "timeout_s": body.deadline_ms / 1000}
        done = await compute(caller, ComputationKind.WRITE, asked, receive=receive, on_text=on_text)
        answer: dict[str, Any] = orjson.loads(done.body)
        if "error" in answer:  # cancelled or expired meanwhile
            raise not_found()
        return answer

    if "text/event-stream" in caller.request.headers.get("accept", ""):
        return AnswerStream(written)
    return json_response(await written())
