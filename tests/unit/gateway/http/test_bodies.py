"""Bodies: what is JSON, what is not, and the strings in between."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.datastructures import Headers

from api_gateway.http.bodies import decode_json, flaws_in, limited, refuse_flaws
from api_gateway.http.problems import Problem

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
strings_with_halves = st.text(st.characters() | st.sampled_from(["\ud800", "\udfff", "\0"]), max_size=6)


class DescribeDecoding:
    @settings(max_examples=30)
    @given(value=st.dictionaries(st.text(max_size=4), values, max_size=4))
    def it_gives_back_what_was_written(self, value):
        assert decode_json(json.dumps(value).encode()).value == value

    @settings(max_examples=30)
    @given(value=st.dictionaries(strings_with_halves, st.lists(strings_with_halves), max_size=4))
    def it_lets_odd_strings_through_and_finds_every_one(self, value):
        decoded = decode_json(json.dumps(value).encode())
        texts = [*value, *(text for inner in value.values() for text in inner)]
        odd = sum("\0" in text or any("\ud800" <= character <= "\udfff" for character in text) for text in texts)
        assert len(list(flaws_in(decoded.value))) == odd or _pairs(texts)
        assert decoded.suspicious or not odd

    def it_takes_a_byte_order_mark(self):
        assert decode_json(b'\xef\xbb\xbf{"a": 1}').value == {"a": 1}

    def it_never_repeats_the_body_in_a_refusal(self):
        with pytest.raises(Problem) as refused:
            decode_json(b'{"secret-word": }')
        assert "secret-word" not in refused.value.detail


class DescribeFlaws:
    def it_says_where_they_are(self):
        value = {"a": ["x", {"b\0": "\ud800"}], "c": "\0"}
        assert {flaw["pointer"] for flaw in flaws_in(value)} == {"/a/1/b\ufffd", "/c"}

    def it_does_not_mind_depth(self):
        deep: list[object] = []
        for _ in range(50_000):
            deep = [deep]
        assert list(flaws_in(deep)) == []

    def it_refuses_them_with_pointers(self):
        with pytest.raises(Problem) as refused:
            refuse_flaws(decode_json(b'{"a/b": {"c": "\\u0000"}}'))
        assert refused.value.errors == ({"pointer": "/a~1b/c", "detail": "holds a NUL character"},)

    def it_is_not_fooled_by_an_escaped_backslash(self):
        assert refuse_flaws(decode_json(rb'{"a": "\\u0000"}')) == {"a": r"\u0000"}


class DescribeLimits:
    async def it_refuses_a_declared_length_before_reading(self):
        with pytest.raises(Problem) as refused:
            limited(_never, Headers({"content-length": "11"}), 10)
        assert refused.value.status == 413

    async def it_refuses_as_soon_as_more_has_come_than_allowed(self):
        pieces = iter([b"12345", b"67890", b"1"])

        async def receive():
            return {"type": "http.request", "body": next(pieces), "more_body": True}

        within = limited(receive, Headers({}), 10)
        await within()
        await within()
        with pytest.raises(Problem) as refused:
            await within()
        assert (refused.value.status, refused.value.code) == (413, "body_too_large")

    @pytest.mark.parametrize("length", ["10", "", "many", "-1"])
    async def it_leaves_alone_what_is_within_or_undeclared(self, length):
        limited(_never, Headers({"content-length": length}), 10)


async def _never():
    raise AssertionError("the body was read")


def _pairs(texts: list[str]) -> bool:
    """Whether JSON joins two halves of some text to one character."""
    return any(json.loads(json.dumps(text)) != text for text in texts)
