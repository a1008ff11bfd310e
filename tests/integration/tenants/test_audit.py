"""The audit on the real stores: a dying process loses and doubles no row; old rows expire; a tenant's are erased."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextvars import copy_context
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from pipeline.administration import edit_chunks, steer_jobs
from pipeline.administration.delete_documents import delete_document
from pipeline.administration.edit_chunks import Edit
from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import StoreUnavailable
from pipeline.maintenance.erase import delete_namespace, erase_tenant
from pipeline.records import Actor, ChunkId, DocumentId
from pipeline.resources import Resources
from pipeline.retrieval import record_search
from pipeline.settings import Settings
from pipeline.tenants import erasure_store
from pipeline.tenants.audit import AuditFilter, AuditRow, act_as
from pipeline.tenants.audit_store import Audit, AuditQueue, list_key
from pipeline.tenants.tenant_store import ApiKeys, Tenants, hashed, key_id_of
from tests.conftest import databases_of_its_own
from tests.support.corpora.uploads import upload
from tests.support.stacks.asking import Asker
from tests.support.stacks.connections import sharing
from tests.support.stacks.corner import Corner

LI = Actor(key_id="0123456789abcdef", key_name="Li", scopes=("read", "write"))


@pytest.fixture(scope="module")
def use(settings: Settings) -> Iterator[Resources]:
    """Resources with separate databases, also of Redis: the first reader of its waiting entries writes those of all
    tenants."""
    with databases_of_its_own(settings) as resources:
        yield resources


def rows(corner: Corner, **wanted: Any) -> list[AuditRow]:
    with unit_of_work(corner.use.mysql) as work:
        return Audit(work.connection, corner.tenant).page(AuditFilter(**wanted), before=None, limit=500)


def as_li(do: Callable[[], Any]) -> Any:
    def run() -> Any:
        act_as(LI, request_id="request-1")
        return do()

    return copy_context().run(run)


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
    def it_notes_who_did_what_in_the_order_it_was_done(self, corner, use):
        ticket = as_li(lambda: corner.accept(upload("d1", "one"), upload("d2", "two")))
        as_li(lambda: steer_jobs.pause(corner.tenant, ticket.job_id, use))
        as_li(lambda: steer_jobs.resume(corner.tenant, ticket.job_id, use, ring=lambda *_: None))
        corner.work(ticket)
        first = chunk_ids(corner)[0]
        as_li(lambda: edit_chunks.edit_chunks(corner.tenant, [Edit(chunk_id=first, text="another")], use))
        as_li(lambda: edit_chunks.delete_chunks(corner.tenant, [first], use))
        as_li(lambda: delete_namespace(corner.tenant, corner.namespace, use))
        found = [row for row in reversed(rows(corner)) if not row.action.startswith("key_")]
        assert [row.action for row in found] == [
            *("ingest", "job_pause", "job_resume", "chunk_edit", "chunk_delete", "delete", "namespace_delete")
        ]
        assert {row.actor for row in found} == {LI}
        assert {row.request_id for row in found} == {"request-1"}
        ingest, *_, edited, removed, deleted, namespace = found
        assert (ingest.namespaces, ingest.ids, ingest.count) == ((corner.namespace,), (ticket.job_id,), 2)
        assert edited.ids == removed.ids == (first,)
        assert deleted.count == 1
        assert (namespace.namespaces, namespace.count) == ((corner.namespace,), 1)

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

    def it_names_the_key_that_was_made_and_never_the_key(self, corner, use):
        with unit_of_work(use.mysql) as work:
            tenants = Tenants(work.connection, corner.tenant)
            key = tenants.issue_key("ops")
            principal = tenants.principal(key)
            ApiKeys(work.connection, corner.tenant).revoke(key_id_of(hashed(key)))
        assert principal is not None
        revoked, issued = rows(corner)[:2]
        assert (issued.action, revoked.action) == ("key_issue", "key_revoke")
        assert issued.ids == revoked.ids == (principal.key_id,)
        assert (principal.actor.key_name, issued.detail["name"]) == ("ops", "ops")
        assert key.rpartition("_")[2] not in repr([issued, revoked, principal])


class DescribeSearches:
    def it_is_noted_who_asked_and_what_came_of_it_but_not_what(self, corner, use):
        corner.ingest(upload("d1", "green tea is mild"), upload("d2", "black tea is strong"))
        asker = Asker(corner)
        query = replace(asker.query("green tea"), asked_by=LI)
        answer = asker.ask(query)
        assert record_search.drain(use) >= 1
        [row] = rows(corner, action="search")
        assert (row.actor, row.request_id, row.status) == (LI, query.request_id, "succeeded")
        assert row.namespaces == (corner.namespace,)
        assert row.ids == tuple(dict.fromkeys(chunk["document_id"] for chunk in answer["chunks"]))
        assert row.count == len(answer["chunks"]) > 0
        assert row.detail["source_share"] == answer["stats"]["source_share"]
        assert row.detail["latency_ms"] == answer["stats"]["latency_ms"]["total"]
        assert row.detail["query_id"] == query.query_id
        assert (row.query_text, "green" in repr(row)) == (None, False)
        assert row.at.tzinfo is not None
        assert abs(row.at - datetime.now(UTC)) < timedelta(minutes=1)

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


class DescribeReading:
    def it_gives_pages_newest_first_that_meet_without_gap_or_overlap(self, corner, use):
        begun = datetime(2026, 3, 1, tzinfo=UTC)
        made = [
            AuditRow(
                audit_id=str(uuid.uuid4()), at=begun + timedelta(seconds=n // 3), action=("search", "ingest")[n % 2]
            )
            for n in range(20)
        ]
        with unit_of_work(use.mysql) as work:
            Audit(work.connection, corner.tenant).add(made)
        expected = sorted(made, key=lambda row: (row.at, row.audit_id), reverse=True)
        seen: list[AuditRow] = []
        before = None
        wanted = AuditFilter(until=begun + timedelta(days=1))
        while True:
            with unit_of_work(use.mysql) as work:
                page = Audit(work.connection, corner.tenant).page(wanted, before=before, limit=7)
            seen += page
            if len(page) < 7:
                break
            before = (page[-1].at, page[-1].audit_id)
        assert seen == expected
        assert rows(corner, action="search", until=begun + timedelta(days=1)) == [
            r for r in expected if r.action == "search"
        ]
        second, fourth = begun + timedelta(seconds=2), begun + timedelta(seconds=4)
        assert {row.at for row in rows(corner, since=second, until=fourth)} == {second, second + timedelta(seconds=1)}

    def it_shows_nobody_anothers(self, corner, use):
        corner.ingest(upload("d1", "x"))
        with unit_of_work(use.mysql) as work:
            other = Audit(work.connection, type(corner.tenant)("somebody-else")).page(
                AuditFilter(), before=None, limit=500
            )
        assert other == []


class DescribeKeeping:
    def it_forgets_what_is_older_than_it_is_kept_and_nothing_else(self, corner, use, monkeypatch):
        monkeypatch.setattr(record_search, "_FORGOTTEN_AT_ONCE", 3)
        now, days = datetime.now(UTC), use.settings.audit_keep_days
        old = [
            AuditRow(audit_id=str(uuid.uuid4()), at=now - timedelta(days=days, minutes=1 + n), action="search")
            for n in range(7)
        ]
        young = AuditRow(audit_id=str(uuid.uuid4()), at=now - timedelta(days=days - 1), action="search")
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
