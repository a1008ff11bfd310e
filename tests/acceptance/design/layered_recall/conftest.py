"""A tenant with the pump library, one for each module."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.conftest import gateway, make_tenant
from tests.support.corpora.documents import upload
from tests.support.corpora.pump_library import KB, LIBRARY


@pytest.fixture(scope="module")
def tenant_id_and_key(use) -> tuple[str, str]:
    return make_tenant(use)


@pytest.fixture(scope="module")
def tenant_id(tenant_id_and_key) -> str:
    return str(tenant_id_and_key[0])


@pytest.fixture(scope="module")
def key(tenant_id_and_key) -> str:
    return str(tenant_id_and_key[1])


@pytest.fixture(scope="module")
def library(key) -> Iterator[httpx.Client]:
    """The gateway, for a tenant with four documents. No test changes them."""
    with gateway(key) as found:
        assert upload(found, KB, LIBRARY)["status"] == "succeeded"
        yield found
