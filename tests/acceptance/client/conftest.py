"""Fixtures of tests that ask from outside: adapters and agents."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipeline.resources import Resources
from tests.support.corpora.shelf import Shelf, shelf


@pytest.fixture(scope="module")
def library(use: Resources) -> Iterator[Shelf]:
    """A tenant with a few documents."""
    with shelf(use) as found:
        yield found
