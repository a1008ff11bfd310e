"""Every hostile text through everything that reads a caller's: tests/unit/test_input_growth.py has the worst of them."""

from __future__ import annotations

import pytest

from tests.unit.test_input_growth import READERS, examples_of_all, slow_text


@pytest.mark.thorough
@pytest.mark.parametrize("name", list(READERS))
def it_takes_time_linear_in_what_it_reads(name: str):
    assert slow_text(READERS[name], examples_of_all()) is None
