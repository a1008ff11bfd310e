"""A namespace to export from and one to import into, of two tenants."""

from __future__ import annotations

import pytest

from pipeline.records import Namespace
from pipeline.resources import Resources
from tests.conftest import make_tenant
from tests.integration.archives.test_portability import Target
from tests.support.stacks.corner import Corner


@pytest.fixture
def source(corner: Corner) -> Corner:
    return corner


@pytest.fixture
def target(use: Resources) -> Target:
    return Target(use, make_tenant(use)[0], Namespace("copy"))
