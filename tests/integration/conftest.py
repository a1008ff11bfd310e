"""Fixtures of tests on the real stores."""

from __future__ import annotations

import pytest

from pipeline.records import Namespace, TenantId
from pipeline.resources import Resources
from tests.support.stacks.corner import Corner


@pytest.fixture(scope="module")
def use(use: Resources, request: pytest.FixtureRequest) -> Resources:
    """Connections to the stack's databases; in modules marked ``own_databases`` to databases of the module's own, which
    the stack's workers, sweeper and indexer do not know."""
    if request.node.get_closest_marker("own_databases") is None:
        return use
    alone: Resources = request.getfixturevalue("use_alone")
    return alone


@pytest.fixture
def corner(use: Resources, tenant: TenantId, namespace: Namespace) -> Corner:
    """An empty namespace of a new tenant."""
    return Corner(use, tenant, namespace)
