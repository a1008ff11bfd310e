"""Ids given by their first digits."""

from __future__ import annotations

import pytest

from chordwise.cli.short_ids import full_id
from chordwise.errors import InvalidInput

IDS = (
    "0a1b2c3d-0000-4000-8000-000000000001",
    "0a1b2c3d-0000-4000-8000-000000000002",
    "ffffeeee-0000-4000-8000-000000000003",
)


def found(given: str, ids: tuple[str, ...] = IDS) -> str:
    return full_id(given, lambda: ids, "job")


class DescribeShortIds:
    @pytest.mark.parametrize(
        ("given", "full"),
        [
            ("ffffeeee", IDS[2]),
            ("FFFFEEEE-0000", IDS[2]),
            ("12345678", "12345678"),  # the server says that there is none
            ("report.pdf", "report.pdf"),
            ("ffffeee", "ffffeee"),  # too short to mean it
        ],
    )
    def it_completes_what_one_id_begins_with(self, given, full):
        assert found(given) == full

    def it_reads_no_list_for_a_whole_id(self):
        def never() -> tuple[str, ...]:
            raise AssertionError

        assert full_id(IDS[0], never, "job") == IDS[0]

    def it_prefers_the_id_that_is_equal(self):
        assert found("deadbeef", ("deadbeef", "deadbeef01")) == "deadbeef"

    def it_lists_the_candidates(self):
        with pytest.raises(InvalidInput, match=f"beginning of 2 jobs.*{IDS[0]}, {IDS[1]}"):
            found("0a1b2c3d")

    def it_lists_ten_of_many(self):
        with pytest.raises(InvalidInput, match="and 5 more"):
            found("0a1b2c3d", tuple(f"0a1b2c3d{number:024x}" for number in range(15)))
