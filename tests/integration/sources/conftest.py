"""Fixtures of tests of sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.records import Namespace
from pipeline.resources import Resources
from pipeline.settings import parse_places
from tests.conftest import make_tenant
from tests.support.stacks.connections import sharing
from tests.support.stacks.corner import Corner
from tests.support.stacks.follower import Follower


@pytest.fixture
def corner(use: Resources, namespace: Namespace, tmp_path: Path) -> Corner:
    """A namespace whose workers may read below the test's folder and connect to this host."""
    permitted = sharing(use, fetch_allow_networks=parse_places(f"127.0.0.0/8,{tmp_path}"))
    return Corner(permitted, make_tenant(use)[0], namespace)


@pytest.fixture
def follower(corner: Corner, tmp_path: Path) -> Follower:
    folder = tmp_path / "docs"
    folder.mkdir()
    return Follower(corner, folder)
