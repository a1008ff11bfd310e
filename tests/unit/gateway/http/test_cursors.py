"""Cursors: they come back as they were, and nothing else passes for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api_gateway.http import cursors
from api_gateway.http.problems import Problem

texts = st.text(st.characters(exclude_categories=["Cs"]))


class DescribeCursors:
    @given(name=texts, number=st.integers(-(2**63), 2**63 - 1))
    def it_comes_back_as_it_was(self, name, number):
        cursor = cursors.encode("things", name, number)
        assert cursors.decode(cursor, "things", str, int) == (name, number)
        assert cursor.isascii()
        assert "=" not in cursor

    def it_is_no_position_without_one(self):
        assert cursors.decode(None, "things", str) is None

    @given(cursor=st.text(max_size=40))
    def it_refuses_what_nobody_gave(self, cursor):
        with pytest.raises(Problem) as refused:
            cursors.decode(cursor, "things", str)
        assert (refused.value.status, refused.value.code) == (422, "invalid_cursor")

    @pytest.mark.parametrize(
        "cursor",
        [
            cursors.encode("others", "a"),
            cursors.encode("things", 1),
            cursors.encode("things", "a", "b"),
            cursors.encode("things"),
        ],
    )
    def it_refuses_the_cursor_of_another_list(self, cursor):
        with pytest.raises(Problem):
            cursors.decode(cursor, "things", str)


class DescribePages:
    @given(entries=st.lists(st.integers(), max_size=30, unique=True), limit=st.integers(1, 7))
    def it_shows_every_entry_once(self, entries, limit):
        entries = sorted(entries)
        shown: list[int] = []
        cursor: str | None = None
        while True:
            after = cursors.decode(cursor, "n", int)
            rest = [entry for entry in entries if after is None or entry > after[0]] if _fits(entries) else []
            found, cursor = cursors.page(rest[: limit + 1], limit, lambda last: cursors.encode("n", last))
            assert len(found) <= limit
            shown += found
            if cursor is None:
                break
        assert shown == (entries if _fits(entries) else [])


def _fits(entries: list[int]) -> bool:
    return all(-(2**63) <= entry < 2**63 for entry in entries)
