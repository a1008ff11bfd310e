"""The audit on the real stores: a dying process loses and doubles no row; old rows expire; a tenant's are erased."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from chordwise.contract.tenant import AuditActor, AuditEntry
from pipeline.administration import edit_chunks
from pipeline.administration.delete_documents import delete_document
from pipeline.administration.edit_chunks import Edit
from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import StoreUnavailable
from pipeline.maintenance.erase import erase_tenant
from pipeline.records import ChunkId, DocumentId
from pipeline.resources import Resources
from pipeline.retrieval import record_search
from pipeline.settings import Settings
from pipeline.tenants import erasure_store
from pipeline.tenants.audit_store import Audit, AuditQueue, list_key
from tests.conftest import databases_of_its_own
from tests.support.corpora.uploads import upload
from tests.support.stacks.asking import Asker
from tests.support.stacks.connections import sharing
from tests.support.stacks.corner import Corner

LI = AuditActor(key_id="0123456789abcdef", key_name="Li", scopes=("read", "write"))


@pytest.fixture(scope="module")
def use(settings: Settings) -> Iterator[Resources]:
    """Resources with separate databases, also of Redis: the first reader of its waiting entries writes those of all
    tenants."""
    with databases_of_its_own(settings) as resources:
        yield resources


def rows(corner: Corner, **wanted: Any) -> list[AuditEntry]:
    with unit_of_work(corner.use.mysql) as work:
        return Audit(work.connection, corner.tenant).page(**wanted, before=None, limit=500)


def chunk_ids(corner: Corner) -> list[ChunkId]:
    with unit_of_work(corner.use.mysql) as work:
        found = work.connection.execute(
            text("SELECT chunk_id FROM chunks WHERE tenant_id = :tenant ORDER BY chunk_id"), {"tenant": corner.tenant}
        )
        return [ChunkId(each) for each in found.scalars()]


def _note_and_fail(corner: Corner) -> None:
    with unit_of_work(corner.use.mysql) as work:
        Audit(work.connection, corner.tenant).wrote("delete")
        raise RuntimeError


class DescribeWrites:
    def it_notes_nothing_that_did_not_happen(self, corner, use):
        corner.ingest(upload("d1", "one"))
        before = len(rows(corner))
        assert not delete_document(corner.tenant, corner.namespace, DocumentId("none"), use)
        chunk = chunk_ids(corner)[0]
        edit_chunks.edit_chunks(corner.tenant, [Edit(chunk_id=chunk, text="one")], use)
        edit_chunks.delete_chunks(corner.tenant, [ChunkId(str(uuid.uuid4()))], use)
        with pytest.raises(RuntimeError):
            _note_and_fail(corner)
        assert len(rows(corner)) == before


class DescribeSearches:
    def it_keeps_the_question_if_the_installation_says_so(self, corner, use):
        telling = replace(use, settings=use.settings.model_copy(update={"audit_query_text": True}))
        corner.ingest(upload("d1", "green tea"))
        Asker(Corner(telling, corner.tenant, corner.namespace)).ask_for("green tea")
        record_search.drain(use)
        assert [row.query_text for row in rows(corner, action="search")] == ["green tea"]
        telling.close()

    def it_neither_loses_nor_repeats_one_when_it_dies_between_the_stores(self, corner, use, monkeypatch):
        corner.ingest(upload("d1", "green tea"))
        asker = Asker(corner)
        for _ in range(3):
            asker.ask_for("green tea")
        real = AuditQueue.take_away

        def dies(*_: Any) -> None:
            raise StoreUnavailable("Redis: gone")

        monkeypatch.setattr(AuditQueue, "take_away", dies)
        with pytest.raises(StoreUnavailable):
            record_search.drain(use)
        assert len(rows(corner, action="search")) == 3
        assert use.redis.llen(list_key(corner.tenant)) == 3
        monkeypatch.setattr(AuditQueue, "take_away", real)
        record_search.drain(use)
        assert len(rows(corner, action="search")) == 3
        assert use.redis.llen(list_key(corner.tenant)) == 0

    def it_waits_in_redis_while_mysql_is_away(self, corner, use):
        corner.ingest(upload("d1", "green tea"))
        Asker(corner).ask_for("green tea")
        lost = sharing(use, mysql=_NoMysql())
        with pytest.raises(StoreUnavailable):
            record_search.drain(lost)
        assert use.redis.llen(list_key(corner.tenant)) == 1
        record_search.drain(use)
        assert len(rows(corner, action="search")) == 1

    def it_is_not_written_for_a_later_tenant_of_the_same_id(self, corner, use):
        corner.ingest(upload("d1", "green tea"))
        Asker(corner).ask_for("green tea")
        corner.execute("UPDATE tenants SET created_at = created_at + INTERVAL 1 MINUTE WHERE tenant_id = :tenant")
        record_search.drain(use)
        assert rows(corner, action="search") == []
        assert use.redis.llen(list_key(corner.tenant)) == 0


class _NoMysql:
    def connect(self) -> Any:
        raise StoreUnavailable("MySQL: gone")


class DescribeKeeping:
    def it_forgets_what_is_older_than_it_is_kept_and_nothing_else(self, corner, use, monkeypatch):
        monkeypatch.setattr(record_search, "_FORGOTTEN_AT_ONCE", 3)
        now, days = datetime.now(UTC), use.settings.audit_keep_days
        old = [
            AuditEntry(
                tenant_id=corner.tenant,
                audit_id=str(uuid.uuid4()),
                at=now - timedelta(days=days, minutes=1 + n),
                action="search",
            )
            for n in range(7)
        ]
        young = AuditEntry(
            tenant_id=corner.tenant, audit_id=str(uuid.uuid4()), at=now - timedelta(days=days - 1), action="search"
        )
        with unit_of_work(use.mysql) as work:
            Audit(work.connection, corner.tenant).add([*old, young])
        record_search.forget_old(use)
        assert [row.audit_id for row in rows(corner, action="search")] == [young.audit_id]

    def it_goes_with_the_tenant_and_leaves_a_proof_without_a_person(self, corner, use):
        corner.ingest(upload("d1", "green tea"))
        asker = Asker(corner)
        asker.ask(replace(asker.query("green tea"), asked_by=LI))
        gone = erase_tenant(corner.tenant, use)
        assert gone is not None
        assert gone.erased["mysql.audit"] >= 1
        record_search.drain(use)  # rows that waited in Redis are erased too
        assert erasure_store.left_over(use.mysql, use.postgres, use.redis, corner.tenant) == {}
        proof = corner.execute("SELECT erased FROM erasures WHERE tenant_id = :tenant")[0][0]
        assert "mysql.audit" in proof
        assert not any(word in proof for word in ("Li", LI.key_id, "green"))
