"""A job's rate is reported only when it is known."""

from __future__ import annotations

import pytest

from pipeline.jobs.job_views import pace


def steps(*done: int, every: float = 1.0) -> list[tuple[float, int]]:
    return [(100 + place * every, count) for place, count in enumerate(done)]


class DescribePace:
    @pytest.mark.parametrize("seen", [[], steps(0), steps(0, 50), steps(0, 5, 10, 15), steps(0, 1, 2, 3, 4, 5, 6, 7)])
    def it_is_unknown_at_first(self, seen):
        assert pace(seen, remaining=100) is None

    def it_is_the_rate_of_the_sample_and_when_it_would_end(self):
        assert pace(steps(0, 10, 20, 30, 40, 50, 60), remaining=100) == (10.0, 10.0)

    def it_foretells_no_end_of_an_uneven_job(self):
        assert pace(steps(0, 1, 2, 3, 40, 80, 120), remaining=100) == (20.0, None)
        assert pace(steps(0, 40, 80, 120, 120, 120, 120), remaining=100) == (20.0, None)

    def it_forgets_what_is_longer_ago_than_the_window(self):
        seen = [(0.0, 0), (1.0, 5000), *steps(5000, 5010, 5020, 5030, 5040, 5050, 5060)]
        assert pace(seen, remaining=20) == (10.0, 2.0)
