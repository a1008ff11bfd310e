"""A tenant with the cooling pump's documents, and a business API beside them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import httpx
import pytest

from tests.conftest import gateway, make_tenant
from tests.support.corpora.cooling_pump import DOCUMENTS, KB, SAME
from tests.support.corpora.documents import document, upload
from tests.support.servers.business_api import BusinessApi, business_api, says

PAIRS = "Q: How often does the cooling pump need oil?\nA: Every Monday.\n\nQ: Who repairs the crane?\nA: The workshop."


@pytest.fixture(scope="module")
def tenant_id_and_key(use) -> tuple[str, str]:
    tenant_id, key = make_tenant(use)
    return str(tenant_id), key


@pytest.fixture(scope="module")
def tenant_id(tenant_id_and_key) -> str:
    return str(tenant_id_and_key[0])


@pytest.fixture(scope="module")
def corpus(tenant_id_and_key) -> Iterator[httpx.Client]:
    """The gateway, for a tenant with three documents and two curated answers. No test changes them."""
    with gateway(tenant_id_and_key[1]) as found:
        upload(found, KB, DOCUMENTS)
        upload(found, KB, [document("faq", PAIRS)], chunking={"strategy": "qa"})
        yield found


@pytest.fixture
def api() -> Iterator[BusinessApi]:
    if "127.0.0.0/8" not in os.environ.get("CHORDWISE_API_ALLOW_NETWORKS", ""):
        pytest.fail("set CHORDWISE_API_ALLOW_NETWORKS=127.0.0.0/8 as make test does", pytrace=False)
    with business_api() as found:
        found.answers["/crm"] = says(SAME)
        yield found
