"""Replies of a chat service that streams them, cut anywhere."""

from __future__ import annotations

import itertools

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import Unavailable
from pipeline.models.service_client import ChatStream

USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}\n\n'
DONE = b"data: [DONE]\n\n"


def delta(text: str, **more: object) -> bytes:
    return b"data: " + orjson.dumps({"choices": [{"delta": {"content": text}, **more}]}) + b"\n\n"


def read(*pieces: bytes) -> tuple[ChatStream, list[str]]:
    texts: list[str] = []
    stream = ChatStream(texts.append)
    stream.read(pieces)
    return stream, texts


class DescribeChatStream:
    def it_tells_the_text_as_it_grows_and_the_tokens(self):
        stream, texts = read(b": hello\n\n", delta("Hold"), delta(" it"), USAGE, DONE)
        assert (texts, stream.text, stream.tokens) == (["Hold", "Hold it"], "Hold it", (7, 2))

    @given(cuts=st.lists(st.integers(0, 200), max_size=8))
    def it_reads_the_same_wherever_the_bytes_are_cut(self, cuts):
        whole = delta("按住").replace(b"\n", b"\r\n") + delta(" it") + USAGE + DONE
        edges = [0, *sorted(cuts), len(whole)]
        stream, _ = read(*(whole[a:b] for a, b in itertools.pairwise(edges)))
        assert (stream.text, stream.tokens) == ("按住 it", (7, 2))

    def it_reads_the_whole_answer_of_a_service_that_does_not_stream(self):
        answer = {
            "choices": [{"message": {"content": "So."}}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 1},
        }
        stream, texts = read(orjson.dumps(answer, option=orjson.OPT_INDENT_2))
        assert (texts, stream.tokens) == (["So."], (3, 1))

    def it_ends_with_a_reason_though_no_event_says_so(self):
        stream, _ = read(delta("So."), b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n')
        assert stream.text == "So."

    @pytest.mark.parametrize(
        "pieces",
        [
            [],
            [delta("So")],
            [delta("So"), b'data: {"error": {"message": "overloaded"}}\n\n'],
            [b'{"choices": []}'],
            [b"5"],
        ],
        ids=["nothing", "a cut", "an error", "no choice", "a number"],
    )
    def it_refuses_a_reply_that_breaks_off(self, pieces):
        with pytest.raises(Unavailable):
            read(*pieces)

    def it_is_ended_by_an_error_of_its_listener(self):
        def stop(_: str) -> None:
            raise Unavailable("gone")

        stream = ChatStream(stop)
        with pytest.raises(Unavailable, match="gone"):
            stream.read([delta("a"), delta("b"), DONE])
        assert (stream.text, stream.begun.is_set()) == ("a", True)
