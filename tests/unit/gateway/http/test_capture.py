"""Answers that are held back: whole ones of a known length, and no others."""

from __future__ import annotations

import pytest

from api_gateway.http.capture import Capture


class Sent(list):
    async def __call__(self, message):
        self.append(message)


def start(status: int = 200, *headers: tuple[bytes, bytes]) -> dict[str, object]:
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def body(content: bytes, *, more: bool = False) -> dict[str, object]:
    return {"type": "http.response.body", "body": content, "more_body": more}


class DescribeACapture:
    async def it_holds_a_whole_answer_back(self):
        capture = Capture(sent := Sent(), limit=10)
        await capture(start(200, (b"content-length", b"4"), (b"x", b"y")))
        await capture(body(b"ab", more=True))
        assert capture.answer is None
        await capture(body(b"cd"))
        assert sent == []
        assert (capture.answer.status, capture.answer.body, capture.answer.header(b"x")) == (200, b"abcd", b"y")
        await capture.release()
        assert sent == [start(200, (b"content-length", b"4"), (b"x", b"y")), body(b"abcd")]

    async def it_lets_a_stream_through_as_it_comes(self):
        capture = Capture(sent := Sent(), limit=10)
        await capture(start())
        await capture(body(b"a", more=True))
        assert sent == [start(), body(b"a", more=True)]
        assert capture.answer is None

    async def it_lets_a_large_answer_through(self):
        capture = Capture(sent := Sent(), limit=3)
        await capture(start(200, (b"content-length", b"4")))
        await capture(body(b"abcd"))
        assert sent[1] == body(b"abcd")
        assert capture.answer is None

    async def it_believes_no_length_that_is_too_small(self):
        capture = Capture(sent := Sent(), limit=3)
        await capture(start(200, (b"content-length", b"1")))
        await capture(body(b"ab", more=True))
        await capture(body(b"cd"))
        assert b"".join(message.get("body", b"") for message in sent) == b"abcd"
        assert capture.answer is None

    @pytest.mark.parametrize("status", [204, 304])
    async def it_holds_an_answer_without_a_body(self, status):
        capture = Capture(Sent(), limit=3)
        await capture(start(status))
        await capture(body(b""))
        assert capture.answer.body == b""
