"""Searches that no channel answers."""

from __future__ import annotations

from tests.conftest import gateway


def ask_channels_that_fail(key: str) -> None:
    """From now on, the tenant's queries ask one channel, which cannot answer."""
    channels = {"keyword": {"weight": 0}, "semantic": {"weight": 0}, "api": {"options": {"source": "nowhere"}}}
    with gateway(key) as client:
        stored = client.put("/v1/profiles/default", json={"config": {"retrieve": {"channels": channels}}})
    assert stored.is_success, stored.text
