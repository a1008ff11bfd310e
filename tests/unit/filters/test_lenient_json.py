"""JSON with lone surrogates: its numbers are those of the fast parser, and can be written out again."""

from __future__ import annotations

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from api_gateway.http.bodies import decode_json
from api_gateway.http.fields import Metadata
from pipeline.database.rows import metadata_of
from pipeline.errors import MalformedDocument
from pipeline.filters import lenient_json
from pipeline.parsing.json_documents import split_jsonl

INTEGERS = st.integers(-(10**40), 10**40).map(str)
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False).map(lambda value: f"{value:e}")
EDGES = st.sampled_from(["-0", "1E+2", *(str(edge + by) for edge in (-(2**63), 2**64) for by in (-1, 0, 1))])


def orjson_reads(digits: str) -> float | None:
    try:
        return orjson.loads(digits)
    except orjson.JSONDecodeError:
        return None


class DescribeItsNumbers:
    @given(digits=INTEGERS | DECIMALS | EDGES)
    def it_reads_as_the_fast_parser_does(self, digits):
        expected = orjson_reads(digits)
        if expected is None:
            with pytest.raises(ValueError, match="too large"):
                lenient_json.loads(digits)
        else:
            found = lenient_json.loads(digits)
            assert (type(found), found) == (type(expected), expected)
            orjson.dumps(found)

    @pytest.mark.parametrize("digits", ["1e999", "-1e999", "9" * 400, "9" * 5000, "NaN", "Infinity", "-Infinity"])
    def it_refuses_what_no_float_can_hold(self, digits):
        with pytest.raises(ValueError, match=r"too large|not JSON"):
            lenient_json.loads(digits)

    def it_keeps_them_in_a_body_with_a_lone_surrogate(self):
        value = decode_json(b'{"a": "\\ud800", "b": 123456789012345678901234567890}').value
        assert value == {"a": "\ud800", "b": 1.2345678901234568e29}

    def it_keeps_them_in_json_lines(self):
        good, bad = split_jsonl(b'{"a": 123456789012345678901234567890}\n{"a": 1e999}')
        assert orjson.loads(orjson.dumps(good.value)) == {"a": 1.2345678901234568e29}
        assert isinstance(bad.value, MalformedDocument)

    def it_reads_metadata_that_holds_larger_ones_so_that_they_can_be_written(self):
        assert metadata_of(json.dumps({"a": 10**30, "b": [2**64]})) == {"a": 1e30, "b": [2.0**64]}

    def it_lets_no_larger_one_into_metadata(self):
        metadata = TypeAdapter(Metadata)
        assert metadata.validate_python({"a": 2**64 - 1})
        with pytest.raises(ValidationError, match="no integer beyond 64 bits"):
            metadata.validate_python({"a": 2**64})


class DescribeItsStrings:
    def it_takes_lone_surrogates(self):
        assert lenient_json.loads('{"\\ud800": "\\udfff"}') == {"\ud800": "\udfff"}
