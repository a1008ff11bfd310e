"""Tests on an event loop whose clock turns by itself."""

from __future__ import annotations

from tests.support.turned_loop import TurnedLoop


def pytest_asyncio_loop_factories() -> dict[str, type[TurnedLoop]]:
    """Give every test of this folder such a loop."""
    return {"turned": TurnedLoop}
