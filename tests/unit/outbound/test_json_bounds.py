"""The limits on the structure of JSON, and that they count what a parser would make."""

from __future__ import annotations

import json
import time
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.outbound.json_limits import (
    DEEPEST,
    MOST_MEMBERS,
    MOST_VALUES,
    TooComplex,
    loads,
    require_few_values,
    require_shape,
)

odd_text = st.text(st.sampled_from('a,:[]{}"\\\n缺'), max_size=8)
values = st.recursive(
    st.none() | st.integers(-9, 9) | odd_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(odd_text, inner, max_size=4),
    max_leaves=30,
)


def count(value: Any) -> int:
    """Count the values in a value, itself included; an empty container has no elements."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(count, inner))


class DescribeTheNumberOfValues:
    @given(value=values, ascii_only=st.booleans())
    def it_is_never_refused_below_the_limit_and_always_above_it(self, value, ascii_only):
        text = json.dumps(value, ensure_ascii=ascii_only).encode()
        there = count(value)
        with pytest.raises(TooComplex, match=f"more than {there - 1} values"):
            require_few_values(text, most=there - 1)
        empty = text.count(b"[]") + text.count(b"{}")
        require_few_values(text, most=there + empty + 1)

    def it_leaves_prose_full_of_commas_alone(self):
        text = orjson.dumps({"text": "a, b [c] {d}: " * (MOST_VALUES // 2)})
        assert loads(text)["text"].startswith("a, b")

    @pytest.mark.parametrize("shift", range(4))
    def it_counts_across_its_blocks(self, shift):
        odd = '\\\\","[{' * 200_000  # strings and their escapes lie across the ends of blocks
        text = json.dumps(["x" * shift, odd, odd, odd]).encode()
        require_few_values(text, most=6)
        with pytest.raises(TooComplex):
            require_few_values(text, most=4)

    @pytest.mark.parametrize("text", [b"[" + b"0," * MOST_VALUES + b"0]", b'["",' + b'"",' * MOST_VALUES + b'""]'])
    def it_refuses_without_parsing(self, text):
        began = time.process_time()
        with pytest.raises(TooComplex) as refused:
            loads(text)
        assert (refused.value.name, refused.value.limit) == ("json_values", MOST_VALUES)
        assert time.process_time() - began < 1.0


class DescribeTheShape:
    def it_bounds_the_members_of_one_object(self):
        assert len(loads(orjson.dumps({str(n): n for n in range(MOST_MEMBERS)}))) == MOST_MEMBERS
        with pytest.raises(TooComplex, match="more than 10000 members"):
            loads(orjson.dumps([{str(n): n for n in range(MOST_MEMBERS + 1)}]))

    def it_bounds_the_depth(self):
        loads(b"[" * DEEPEST + b"]" * DEEPEST)
        with pytest.raises(TooComplex, match="nested more than 512 levels"):
            loads(b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1))

    def it_takes_what_is_no_container(self):
        require_shape("text")
        assert loads(b"7") == 7
