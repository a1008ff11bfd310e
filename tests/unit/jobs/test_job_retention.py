"""Until when jobs and counts of usage are kept."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import pytest
from pydantic import ValidationError

from pipeline.jobs.job_retention_store import keep_jobs_since, keep_usage_since
from pipeline.settings import Settings

NOON = datetime(2026, 11, 26, 12)
TODAY = NOON.date()


class DescribeJobs:
    @pytest.mark.parametrize(
        ("keep_days", "since"), [(90, datetime(2026, 8, 28, 12)), (1, datetime(2026, 11, 25, 12)), (0, None)]
    )
    def it_keeps_them_for_days(self, keep_days, since):
        assert keep_jobs_since(NOON, keep_days=keep_days) == since

    def it_keeps_them_ninety_days_unless_told_otherwise(self):
        fields = Settings.model_fields
        assert (fields["job_keep_days"].default, fields["usage_keep_days"].default) == (90, 400)

    @pytest.mark.parametrize("name", ["job_keep_days", "usage_keep_days"])
    @pytest.mark.parametrize("days", [-1, 36_501])
    def it_refuses_other_numbers_of_days(self, name, days):
        with pytest.raises(ValidationError, match=name):
            Settings(**{name: days})


class DescribeUsage:
    @pytest.mark.parametrize(
        ("keep_days", "job_keep_days", "since"),
        [
            (400, 90, TODAY - timedelta(days=400)),
            (90, 400, TODAY - timedelta(days=400)),  # a job shows its costs as long as it is there
            (1, 1, date(2026, 11, 1)),  # the quota counts the month
            (0, 90, None),
            (400, 0, None),
        ],
    )
    def it_keeps_counts_as_long_as_jobs_and_the_whole_month(self, keep_days, job_keep_days, since):
        assert keep_usage_since(TODAY, keep_days=keep_days, job_keep_days=job_keep_days) == since
