"""How long the indexer sleeps between two looks for changes."""

import pytest

from workers.indexer import pause_after


class DescribePauseAfter:
    @pytest.mark.parametrize(
        ("step_s", "pause_s"),
        [
            (0.001, 0.1),  # the interval
            (0.05, 1.0),  # twenty times as long as the step
            (0.2, 4.0),
            (20.0, 5.0),  # a database hung
            (95.0, 5.0),
        ],
    )
    def it_grows_with_the_cost_of_a_step_and_is_bounded(self, step_s, pause_s):
        assert pause_after(step_s, interval_s=0.1) == pytest.approx(pause_s)

    def it_is_never_shorter_than_the_interval(self):
        assert pause_after(0.001, interval_s=60.0) == 60.0

    @pytest.mark.parametrize(("quiet_s", "pause_s"), [(0.0, 0.1), (1.0, 0.1), (8.0, 0.8), (20.0, 2.0), (86_400.0, 2.0)])
    def it_grows_while_nothing_changes(self, quiet_s, pause_s):
        assert pause_after(0.001, interval_s=0.1, quiet_s=quiet_s) == pytest.approx(pause_s)
