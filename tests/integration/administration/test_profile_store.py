"""Profiles in MySQL: what is removed, and who points to a version first."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text

from pipeline.administration.edit_profiles import activate, store_profile
from pipeline.database.unit_of_work import unit_of_work
from pipeline.query.profile_store import Profiles
from pipeline.records import TenantId
from pipeline.resources import Resources
from tests.support.stacks.racing import side_by_side


def _store(tenant: TenantId, use: Resources, **config: Any) -> int:
    return store_profile(tenant, "short", config, note="", by="a test", share=0.0, use=use)[0]


def _remove(tenant: TenantId, use: Resources) -> bool:
    with unit_of_work(use.mysql) as work:
        return Profiles(work.connection, tenant).remove("short")


def _deeds(tenant: TenantId, use: Resources) -> list[str]:
    with unit_of_work(use.mysql) as work:
        rows = work.connection.execute(
            text("SELECT action FROM audit WHERE tenant_id = :tenant ORDER BY at"), {"tenant": tenant}
        )
        return list(rows.scalars())


class DescribeRemoval:
    @pytest.mark.parametrize("in_force", [False, True])
    def it_takes_what_nobody_got_yet_as_well_and_is_in_the_audit(self, use, tenant, in_force):
        version = _store(tenant, use, top_k=2)
        if in_force:
            activate(tenant, "short", version, share=1.0, use=use)
        assert _remove(tenant, use)
        assert _deeds(tenant, use)[-1] == "profile_remove"
        assert not _remove(tenant, use)
        assert _deeds(tenant, use).count("profile_remove") == 1


class DescribeTheFirstActivation:
    def it_may_be_done_by_two_at_once(self, use, tenant):
        versions = [_store(tenant, use, top_k=size) for size in (2, 3)]
        done = side_by_side(
            use.mysql,
            [lambda version=version: activate(tenant, "short", version, share=1.0, use=use) for version in versions],
            looking="SELECT active_version FROM profile_heads",
        )
        with unit_of_work(use.mysql) as work:
            head = Profiles(work.connection, tenant).heads()["short"]
        assert done == [True, True]
        assert {head.active.version, head.previous_version} == set(versions)
