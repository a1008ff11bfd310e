"""Fixtures of tests that need no server."""

from __future__ import annotations

from collections.abc import Iterator

import fakeredis
import pytest
import structlog


@pytest.fixture
def redis() -> Iterator[fakeredis.FakeRedis]:
    """A Redis in memory."""
    client = fakeredis.FakeRedis()
    yield client
    client.close()


@pytest.fixture
def quiet() -> Iterator[None]:
    """Keep log lines off the output."""
    with structlog.testing.capture_logs():
        yield
