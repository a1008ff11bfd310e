"""Fixtures of tests that need no server."""

from __future__ import annotations

from collections.abc import Iterator

import fakeredis
import pytest


@pytest.fixture
def redis() -> Iterator[fakeredis.FakeRedis]:
    """A Redis in memory."""
    client = fakeredis.FakeRedis()
    yield client
    client.close()
