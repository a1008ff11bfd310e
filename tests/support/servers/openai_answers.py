"""How the service of openai_server.py may be told to treat a request."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

SECRET = "sk-test-0123456789abcdef"  # the key that clients send

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """How to treat one request: wait, then break off, or send ``raw``, or send the honest answer after ``change``."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    change: Callable[[Json], Any] | None = None
    delay_s: float = 0.0
    trickle_s: float = 0.0  # between single bytes of the body
    drop: bool = False
    pause_s: float = 0.0  # between the events of a streamed reply
    most_events: int | None = None  # of a streamed reply; then the connection ends


def refused(status: int, message: str = "no", *, retry_after: str | None = None, code: str | None = None) -> Answer:
    """An error in OpenAI's shape."""
    body = {"error": {"message": message, "type": "error", "param": None, "code": code}}
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return Answer(status=status, headers=headers, raw=json.dumps(body).encode())


def slow(delay_s: float) -> Answer:
    """The honest answer, late."""
    return Answer(delay_s=delay_s)


def hangs() -> Answer:
    """No answer until the server stops."""
    return Answer(delay_s=3600)


def trickles(pause_s: float = 0.02) -> Answer:
    """The honest answer, byte by byte."""
    return Answer(trickle_s=pause_s)


def drops() -> Answer:
    """The connection is reset instead of an answer."""
    return Answer(drop=True)


def says(text: str) -> Answer:
    """A chat completion with exactly this content."""
    return Answer(change=lambda body: {**body, "choices": [choice(text)]})


def streams(text: str, *, pause_s: float = 0.0, most_events: int | None = None) -> Answer:
    """A chat completion with this content: if it is streamed, slowly or with an early end."""
    return replace(says(text), pause_s=pause_s, most_events=most_events)


def changed(change: Callable[[Json], Any]) -> Answer:
    """The honest answer's JSON after ``change``, which may return anything that has a JSON form."""
    return Answer(change=change)


def raw(body: bytes) -> Answer:
    """Status 200 with these bytes."""
    return Answer(raw=body)


def choice(text: str) -> Json:
    """The part of a chat completion that holds what the model said."""
    return {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}


def with_vectors(make: Callable[[int], Any]) -> Answer:
    """Every embedding of the honest answer replaced by ``make(its place)``."""
    return with_data(lambda data: [{**item, "embedding": make(place)} for place, item in enumerate(data)])


def with_data(make: Callable[[list[Json]], Any]) -> Answer:
    """The honest answer's list of embeddings replaced by ``make(it)``."""
    return changed(lambda body: {**body, "data": make(body["data"])})


# Failures of a chat service whose reply cannot be used.
FAILING: dict[str, Answer] = {
    "busy": refused(429),
    "broken": refused(500),
    "wrong key": refused(401, f"Incorrect API key provided: {SECRET}"),
    "no such model": refused(404),
    "refusal": refused(400),
    "reset": drops(),
    "hangs": hangs(),
    "trickles": trickles(0.02),
    "not JSON": raw(b"<html>"),
    "no choices": changed(lambda body: {**body, "choices": []}),
    "a number for content": changed(lambda body: {**body, "choices": [{"message": {"content": 5}}]}),
    "an apology": says("I am sorry, I cannot do that."),
    "nothing": says(""),
}
