"""Databases for each test: a move to another model concerns the whole installation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipeline.resources import Resources
from pipeline.settings import Settings
from tests.conftest import databases_of_its_own


@pytest.fixture
def use(settings: Settings) -> Iterator[Resources]:
    """An installation of the test's own."""
    with databases_of_its_own(settings) as resources:
        yield resources
