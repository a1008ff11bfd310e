"""A sweep does what it can while a store is away."""

from __future__ import annotations

import pytest

from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents.owned_chunk_store import tenants_with_outdated_terms
from pipeline.errors import StoreUnavailable
from pipeline.maintenance.sweep import sweep
from pipeline.resources import Resources
from tests.support.corpora.uploads import upload
from tests.support.servers.administration import postgres_url
from tests.support.stacks.connections import in_mysql
from tests.support.stacks.corner import Corner
from tests.support.stacks.processes import free_port
from tests.support.stacks.refusals import moved

pytestmark = pytest.mark.own_databases


def it_renews_terms_although_postgresql_is_away(use, tenant, namespace):
    corner = Corner(use, tenant, namespace)
    corner.ingest(upload("fox", "Foxes hunt at night."))
    corner.ingest(upload("fox", "Foxes hunt by day."))
    in_mysql(use, "UPDATE retired_generations SET due_at = '2000-01-01'")
    in_mysql(use, "UPDATE generations SET terms_version = 1")
    away = Resources(moved(use.settings, postgres=postgres_url(use.settings, port=free_port())))
    with pytest.raises(StoreUnavailable, match="PostgreSQL"):
        sweep(away, notify=lambda *_: None)
    away.close()
    with unit_of_work(use.mysql) as work:
        assert tenant not in tenants_with_outdated_terms(work.connection)
    assert corner.rows("retired_generations") == 1
