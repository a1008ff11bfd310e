"""Fixtures of tests in which another product's client speaks to the gateway."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from openai import OpenAI

from pipeline.resources import Resources
from tests.support.clients.openai_dialect import client_of


@pytest.fixture(scope="module")
def sdk(use: Resources) -> Iterator[OpenAI]:
    """The official OpenAI client of a new tenant."""
    with client_of(use) as client:
        yield client
