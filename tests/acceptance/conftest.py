"""Fixtures of tests that speak to the gateway."""

from __future__ import annotations

import os
from collections.abc import Iterator

import httpx
import pytest

from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant


@pytest.fixture(scope="module")
def key(use: Resources) -> str:
    """The key of a tenant that the tests of one module share."""
    return make_tenant(use)[1]


@pytest.fixture
def operator() -> Iterator[httpx.Client]:
    """The gateway with the operator's key."""
    with gateway(os.environ["CHORDWISE_ADMIN_KEY"]) as found:
        yield found
