"""Moments as the columns of MySQL hold them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pipeline.database.rows import to_naive


class DescribeAMomentOfAColumn:
    @pytest.mark.parametrize(
        ("moment", "held"),
        [
            ("2026-01-02T01:30:00+02:00", "2026-01-01T23:30:00"),
            ("2026-01-02T01:30:00", "2026-01-02T01:30:00"),
            ("0001-01-01T14:00:00+14:00", "0001-01-01T00:00:00"),
            ("0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00"),
            ("9999-12-31T11:59:59-12:00", "9999-12-31T23:59:59"),
            ("9999-12-31T23:59:59-12:00", "9999-12-31T23:59:59"),
        ],
    )
    def it_is_in_utc_and_never_outside_the_calendar(self, moment, held):
        assert to_naive(datetime.fromisoformat(moment)) == datetime.fromisoformat(held)

    def it_is_nothing_for_nothing(self):
        assert to_naive(None) is None

    def it_has_no_zone(self):
        assert to_naive(datetime(2026, 1, 1, tzinfo=UTC)).tzinfo is None
