"""A sweep does what it can while a store is away."""

from __future__ import annotations

import pytest

from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import StoreUnavailable
from pipeline.keyword.statistics_store import Statistics
from pipeline.maintenance.sweep import sweep
from pipeline.resources import Resources
from tests.support.corpora.uploads import upload
from tests.support.servers.administration import postgres_url
from tests.support.stacks.connections import in_mysql
from tests.support.stacks.corner import Corner
from tests.support.stacks.processes import free_port
from tests.support.stacks.refusals import moved

pytestmark = pytest.mark.own_databases

DEFERRED = [f"t{number:012d}" for number in range(1_500)]  # more terms than are added at once


def it_counts_terms_that_wait_although_postgresql_is_away(use, tenant, namespace):
    corner = Corner(use, tenant, namespace)
    corner.ingest(upload("fox", "Foxes hunt at night."))
    corner.ingest(upload("fox", "Foxes hunt by day."))
    in_mysql(use, "UPDATE retired_generations SET due_at = '2000-01-01'")
    with unit_of_work(use.mysql) as work:
        Statistics(work.connection, tenant).count(namespace, [DEFERRED], [], document_ids=[])
    in_mysql(use, "UPDATE term_changes SET created_at = '2000-01-01'")
    away = Resources(moved(use.settings, postgres=postgres_url(use.settings, port=free_port())))
    with pytest.raises(StoreUnavailable, match="PostgreSQL"):
        sweep(away, ring=lambda *_: None)
    away.close()
    with unit_of_work(use.mysql) as work:
        assert Statistics(work.connection, tenant).frequencies([namespace], DEFERRED[:1]) == {DEFERRED[0]: 1}
    assert corner.rows("term_changes") == 0
    assert corner.rows("retired_generations") == 1
