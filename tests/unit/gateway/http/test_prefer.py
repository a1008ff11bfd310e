"""The Prefer header, as RFC 7240 writes it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api_gateway.http.prefer import LONGEST_WAIT_S, parse_prefer


class DescribePrefer:
    @pytest.mark.parametrize(
        ("headers", "wait_s", "respond_async"),
        [
            ([], None, False),
            (["wait=5"], 5, False),
            (["respond-async"], None, True),
            (["respond-async, wait=5"], 5, True),
            (["wait=5", "respond-async"], 5, True),
            (["Respond-Async,WAIT=5"], 5, True),
            (['wait="5"'], 5, False),
            (["wait = 5 ; strict"], 5, False),
            (["wait=5, wait=9"], 5, False),
            (["return=minimal, wait=5"], 5, False),
            (['foo="a, wait=9", wait=5'], 5, False),
            (["wait=0"], 0, False),
            (["wait=3600"], LONGEST_WAIT_S, False),
            (["wait=" + "9" * 100], LONGEST_WAIT_S, False),
            (["wait"], None, False),
            (["wait=-5"], None, False),
            (["wait=5.5"], None, False),
            (["wait=soon"], None, False),
            (["wait=５"], None, False),
            ([""], None, False),
            ([",,,"], None, False),
        ],
    )
    def it_reads(self, headers, wait_s, respond_async):
        found = parse_prefer(headers)
        assert (found.wait_s, found.respond_async) == (wait_s, respond_async)

    @given(header=st.text(max_size=200))
    def it_takes_anything_without_complaint(self, header):
        found = parse_prefer([header])
        assert found.wait_s is None or 0 <= found.wait_s <= LONGEST_WAIT_S

    def it_reads_a_long_header_quickly(self):
        assert parse_prefer(["a" + " " * 60_000 + "x, " + " " * 60_000 + "wait=5"]).wait_s == 5


class DescribeWhatWasApplied:
    @pytest.mark.parametrize(
        ("header", "waited", "ready", "applied"),
        [
            ("wait=5", True, True, "wait=5"),
            ("wait=5", True, False, "wait=5"),
            ("respond-async", False, False, "respond-async"),
            ("respond-async, wait=5", True, True, "wait=5"),
            ("respond-async, wait=5", True, False, "respond-async, wait=5"),
            ("wait=90", True, True, f"wait={LONGEST_WAIT_S}"),
            ("handling=lenient", False, False, None),
        ],
    )
    def it_names_what_had_a_part(self, header, waited, ready, applied):
        assert parse_prefer([header]).applied(waited=waited, ready=ready) == applied
