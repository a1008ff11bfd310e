"""Why a job stands still."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from pipeline.jobs.job_views import waiting_reason

NOW = datetime(2026, 1, 2, 3, 4, 5)
LONG_AGO = NOW - timedelta(seconds=60)
JUST_NOW = NOW - timedelta(seconds=1)


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ({}, "queued_behind_others"),
        ({"workers_seen": False}, "no_worker"),
        ({"paused": True, "workers_seen": False}, "paused"),
        ({"due_since": None}, "retrying"),
        ({"due_since": JUST_NOW}, None),
        ({"served_at": JUST_NOW}, None),
        ({"served_at": LONG_AGO}, "queued_behind_others"),
        ({"running": 1}, None),
        ({"running": 1, "paused": True}, None),
        ({"queued": 0}, None),
    ],
)
def test_a_job_says_why_it_stands_still(known, reason):
    usual = {
        "paused": False,
        "running": 0,
        "queued": 3,
        "due_since": LONG_AGO,
        "served_at": None,
        "workers_seen": True,
    }
    assert waiting_reason(**{**usual, **known}, now=NOW) == reason
