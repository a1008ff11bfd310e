"""A streamed chat completion: the text so far, and the tokens at its end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from pipeline.errors import Unavailable

_EVENT = b"data:"


@dataclass(slots=True)
class ChatStream:
    """A reply as it arrives. ``wrote`` gets the text so far on each event and may raise to end the stream; ``tokens``:
    those of prompt and reply, None until the service reports them."""

    wrote: Callable[[str], None]
    text: str = ""
    tokens: tuple[int, int] | None = None
    begun: threading.Event = field(default_factory=threading.Event)  # set by the first bytes
    _ended: bool = field(default=False, init=False)

    def read(self, pieces: Iterable[bytes]) -> None:
        """Read server-sent events, or the whole answer of a service that does not stream.

        Raises Unavailable if the stream reports an error or ends before the reply does, and orjson.JSONDecodeError.
        """
        plain = bytearray()
        for line in _lines(pieces):
            self.begun.set()
            if line.startswith(_EVENT):
                self._take(line[len(_EVENT) :].strip())
            elif not line.startswith(b":"):
                plain += line + b"\n"
        if not self._ended:
            self._take(bytes(plain).strip() or b"null")
        if not self._ended:
            raise Unavailable("the language model broke off in the middle of its reply")

    def _take(self, data: bytes) -> None:
        if data == b"[DONE]":
            self._ended = True
            return
        answer = orjson.loads(data)
        if not isinstance(answer, dict):
            return
        if answer.get("error"):
            raise Unavailable("the language model reported an error in the middle of its reply")
        self.tokens = counted_tokens(answer) or self.tokens
        for choice in answer["choices"][:1] if isinstance(answer.get("choices"), list) else ():
            self._add(choice if isinstance(choice, dict) else {})

    def _add(self, choice: dict[str, Any]) -> None:
        part = choice.get("delta") or choice.get("message")
        content = part.get("content") if isinstance(part, dict) else None
        if isinstance(content, str) and content:
            self.text += content
            self.wrote(self.text)
        self._ended = self._ended or bool(choice.get("finish_reason")) or "message" in choice


def counted_tokens(answer: dict[str, Any]) -> tuple[int, int] | None:
    """Return the tokens of prompt and reply that an answer reports; None if it reports none."""
    usage = answer.get("usage")
    counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")] if isinstance(usage, dict) else []
    valid = [count for count in counts if type(count) is int and count >= 0]
    return (valid[0], valid[1]) if len(valid) == 2 else None


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line.rstrip(b"\r")
    yield rest
