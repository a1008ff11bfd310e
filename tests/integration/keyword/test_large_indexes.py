"""Large keyword indexes: to write one anew takes minutes, in which the changes of other tenants are indexed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import redis

from pipeline.administration.delete_documents import delete_document
from pipeline.keyword_index.index_search import sizes_on_disk
from pipeline.keyword_index.local_index_store import folder_of
from pipeline.maintenance.index_keywords import KeywordIndexer
from pipeline.metrics.meter_store import Meter
from pipeline.records import Chunking, DocumentId, Namespace, TenantId
from pipeline.resources import Resources
from tests.conftest import make_tenant
from tests.support.corpora.animals import animals
from tests.support.corpora.uploads import upload
from tests.support.stacks.corner import Corner
from tests.support.stacks.keyword_index import Host

pytestmark = pytest.mark.own_databases

_WITHIN_S = 20.0
_LARGE = 3  # chunks


class _HeldBuilds(Meter):
    """The metrics of an indexer; a build waits at its count until the test lets it go on."""

    def __init__(self, client: redis.Redis) -> None:
        super().__init__(client)
        self.begun, self.goes_on = threading.Event(), threading.Event()
        self.goes_on.set()

    def count(self, name: str, by: float = 1.0, **labels: object) -> None:
        super().count(name, by, **labels)
        if name == "chordwise_keyword_index_builds":
            self.begun.set()
            assert self.goes_on.wait(3 * _WITHIN_S)


@pytest.fixture
def corner(use: Resources, tenant: TenantId, namespace: Namespace) -> Corner:
    return animals(use, tenant, namespace)


@pytest.fixture
def held(use: Resources) -> _HeldBuilds:
    return _HeldBuilds(use.redis)


@pytest.fixture
def host(corner: Corner, tmp_path: Path, held: _HeldBuilds) -> Iterator[Host]:
    found = Host(corner, tmp_path)
    found.indexer = KeywordIndexer(corner.use.mysql, tmp_path, held, looked_at_every_s=0.0, large=_LARGE)
    found.catch_up()
    yield found
    held.goes_on.set()
    found.indexer.close()


def step_until(host: Host, holds: Callable[[], bool]) -> None:
    until = time.monotonic() + _WITHIN_S
    while not holds():
        assert time.monotonic() < until, host.indexer.lag
        host.indexer.step()
        time.sleep(0.01)


def it_indexes_the_changes_of_others_while_it_builds_one_anew(host, held, corner, use):
    other = Corner(use, make_tenant(use)[0], corner.namespace)
    other.ingest(upload("theirs", "Foxes of another tenant."))
    host.catch_up()
    held.begun.clear()
    held.goes_on.clear()
    corner.ingest(upload("late", "An owl came late. 猫头鹰来晚了。"))
    corner.execute("DELETE FROM publications WHERE tenant_id = :tenant")
    step_until(host, held.begun.is_set)
    other.ingest(upload("more", "An owl of another tenant."))
    assert host.indexer.step().tenants == 2
    step_until(host, lambda: host.indexer.lag.tenants == 1)
    assert host.documents("owl", other) == ["more"]
    assert host.documents("owl") == ["late"], "MySQL answers meanwhile"
    held.goes_on.set()
    host.catch_up()
    assert (host.method(), host.documents("owl"), host.documents("猫头鹰")) == ("index", ["late"], ["late"])


@pytest.mark.thorough
def it_frees_the_space_of_deleted_chunks(host, corner):
    body = "Gravel lies in the yard. " * 6_000
    short = Chunking(max_tokens=64)
    corner.ingest(replace(upload("gravel", body), chunking=short), replace(upload("sand", body), chunking=short))
    host.catch_up()
    folder = folder_of(host.root, corner.tenant)
    before, _ = sizes_on_disk(folder)
    delete_document(corner.tenant, corner.namespace, DocumentId("sand"), corner.use)
    step_until(host, lambda: sizes_on_disk(folder)[0] < 0.6 * before and not host.indexer.lag.tenants)
    assert sizes_on_disk(folder)[1] == 0
    assert set(host.documents("gravel yard")) == {"gravel"}
    assert host.method() == "index"
