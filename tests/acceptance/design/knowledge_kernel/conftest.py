"""A tenant with both knowledge bases, one for each module."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant
from tests.support.corpora.documents import document, upload
from tests.support.corpora.knowledge_bases import FAMILY, MARKDOWN, PUMPS, SENTENCES, WINDOW


@pytest.fixture(scope="module")
def kernel(use: Resources) -> Iterator[httpx.Client]:
    """The gateway with the key of a tenant with two knowledge bases: one with parents, one with windows."""
    with gateway(make_tenant(use)[1]) as client:
        pumps = document(
            "pumps", PUMPS, title="Pump manual", tags=["manual"], source=MARKDOWN, metadata={"site": "north"}
        )
        upload(client, "kb_pumps", [pumps], chunking=FAMILY)
        animals = [
            document("animals", SENTENCES, title="Animals"),
            document("valves", "A valve of the heart is no pump."),
        ]
        upload(client, "kb_animals", animals, chunking=WINDOW)
        yield client
