"""The pause of a document between two attempts."""

import pytest

from pipeline.ingestion.claimed_items import backoff_s, retry_delay_s


class DescribeRetryDelay:
    @pytest.mark.parametrize(("attempts", "most_s"), [(1, 1.0), (2, 2.0), (5, 16.0), (12, 600.0), (5000, 600.0)])
    def it_doubles_up_to_ten_minutes(self, attempts, most_s):
        assert backoff_s(attempts, jitter=0.999) == pytest.approx(most_s, rel=0.01)

    @pytest.mark.parametrize(("asked_s", "delay_s"), [(None, 1.0), (0.0, 1.0), (30.0, 30.0), (86_400.0, 600.0)])
    def it_is_what_a_service_asks_for_within_ten_minutes(self, asked_s, delay_s):
        assert retry_delay_s(1, asked_s=asked_s, jitter=0.999) == pytest.approx(delay_s, rel=0.01)
