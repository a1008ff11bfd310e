"""Fixtures of tests of the steps of an answer."""

from __future__ import annotations

import fakeredis
import pytest

from pipeline.resources import Resources
from pipeline.settings import load


@pytest.fixture
def use(redis: fakeredis.FakeRedis) -> Resources:
    """Resources with a Redis in memory."""
    resources = Resources(load())
    resources.__dict__["redis"] = redis
    return resources
