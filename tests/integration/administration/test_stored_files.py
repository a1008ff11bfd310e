"""Files that are kept, and what they become: durable at once, gone when their time is up, never half put anywhere."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from api_gateway.live.stale_cache import KnownNamespaces
from pipeline.administration.edit_vector_stores import (
    MOST_BYTES_AT_ONCE,
    NoSuchFile,
    Put,
    change_store,
    describe_file,
    open_store,
    put_files,
    take_out,
)
from pipeline.administration.keep_files import forget_file, keep_file
from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents.document_store import Documents
from pipeline.errors import DocumentTooLarge, QuotaExceeded
from pipeline.maintenance import sweep
from pipeline.maintenance.erase import delete_namespace
from pipeline.maintenance.sweep import expire
from pipeline.records import Chunking, DocumentId, Namespace
from pipeline.vector_stores.attachment_store import Attachments
from pipeline.vector_stores.collection import VectorStore
from pipeline.vector_stores.collection_store import VectorStores
from pipeline.vector_stores.file_store import StoredFiles
from tests.conftest import make_tenant
from tests.support.corpora.uploads import upload
from tests.support.stacks.connections import in_mysql
from tests.support.stacks.corner import submit, work_off


@pytest.fixture
def owner(use_alone):
    return make_tenant(use_alone)[0]


def kept(owner, use, body=b"The heron fishes.", *, name="a.txt", **more):
    return keep_file(owner, body, use, filename=name, purpose="assistants", declared_type=None, **more).file_id


def put(owner, use, namespace, *file_ids, attributes=None):
    puts = [Put(file_id=each, chunking=Chunking(), attributes=attributes or {}) for each in file_ids]
    return put_files(owner, namespace, puts, use, notify=lambda ticket: None, request_id="r")


def written(owner, use, namespace, document_id, body, **fields):
    """A document as `/v1` takes it; gives its job."""
    return submit(use, owner, [upload(document_id, body, **fields)], namespace)


def shown(owner, use, namespace, file_id):
    with unit_of_work(use.mysql) as work:
        file = Attachments(work.connection, owner).named(namespace, [file_id])[file_id]
    return file.filename, dict(file.attributes), file.body_bytes


def files_in(owner, use, namespace):
    with unit_of_work(use.mysql) as work:
        page = Attachments(work.connection, owner).page(
            namespace, position=None, newest_first=False, status=None, limit=99
        )
    return {each.document_id: each.status for each in page}


def jobs_of(owner, use):
    with unit_of_work(use.mysql) as work:
        counted = work.connection.execute(text("SELECT COUNT(*) FROM jobs WHERE tenant_id = :t"), {"t": owner})
        return counted.scalar_one()


class DescribePutting:
    def it_puts_all_files_or_none(self, owner, use_alone, namespace):
        with pytest.raises(NoSuchFile):
            put(owner, use_alone, namespace, kept(owner, use_alone), "file-unknown")
        assert files_in(owner, use_alone, namespace) == {}
        assert jobs_of(owner, use_alone) == 0

    def it_accepts_nothing_that_is_deleted_meanwhile(self, owner, use_alone, namespace):
        # The file goes between being looked up and being handed over, again and again; never is half of it accepted.
        outcomes = set()
        for _ in range(12):
            file_id = kept(owner, use_alone)
            deleter = threading.Thread(target=forget_file, args=(owner, file_id, use_alone))
            deleter.start()
            try:
                work_off(use_alone, put(owner, use_alone, namespace, file_id))
                outcomes.add("put")
            except NoSuchFile:
                outcomes.add("refused")
            deleter.join()
            assert files_in(owner, use_alone, namespace).get(file_id) in (None, "completed")
        assert outcomes

    @pytest.mark.thorough
    def it_bounds_what_travels_in_one_transaction(self, owner, use_alone, namespace):
        file_id = kept(owner, use_alone)
        in_mysql(
            use_alone, "UPDATE stored_files SET body_bytes = :b WHERE file_id = :f", b=MOST_BYTES_AT_ONCE + 1, f=file_id
        )
        with pytest.raises(DocumentTooLarge):
            put(owner, use_alone, namespace, file_id)

    @pytest.mark.thorough
    def it_describes_a_file_twice_while_nothing_is_ingested(self, owner, use_alone, namespace):
        file_id = kept(owner, use_alone)
        put(owner, use_alone, namespace, file_id, attributes={"n": 1})
        for n in (2, 3):
            with unit_of_work(use_alone.mysql) as work:
                file = Attachments(work.connection, owner).named(namespace, [file_id])[file_id]
            ticket = describe_file(owner, file, {"n": n}, use_alone, notify=lambda _: None, request_id="r")
        work_off(use_alone, ticket)
        with unit_of_work(use_alone.mysql) as work:
            generation = Documents(work.connection, owner).published(namespace, DocumentId(file_id))
            source = Documents(work.connection, owner).sources([generation])[generation]
        assert (source.fields.metadata, source.body) == ({"n": 3}, b"The heron fishes.")

    @pytest.mark.thorough
    def it_describes_what_is_shown_once_a_file_was_written_some_other_way(self, owner, use_alone, namespace):
        file_id = kept(owner, use_alone, b"The heron fishes.")
        work_off(use_alone, put(owner, use_alone, namespace, file_id, attributes={"bird": "heron"}))
        job = written(owner, use_alone, namespace, file_id, b"An owl.", title="Owls", metadata={"bird": "owl"})
        assert shown(owner, use_alone, namespace, file_id) == ("a.txt", {"bird": "heron"}, 17)
        work_off(use_alone, job)
        assert shown(owner, use_alone, namespace, file_id) == ("Owls", {"bird": "owl"}, 7)
        with unit_of_work(use_alone.mysql) as work:
            tally = Attachments(work.connection, owner).tallies([namespace])[namespace]
        assert (tally.total, tally.body_bytes) == (1, 7)
        work_off(use_alone, put(owner, use_alone, namespace, file_id, attributes={"bird": "heron"}))
        assert shown(owner, use_alone, namespace, file_id) == ("a.txt", {"bird": "heron"}, 17)

    @pytest.mark.thorough
    def it_does_not_bring_back_what_is_deleted_while_it_is_described(self, owner, use_alone, namespace):
        file_id = kept(owner, use_alone)
        work_off(use_alone, put(owner, use_alone, namespace, file_id))
        with unit_of_work(use_alone.mysql) as work:
            before = Attachments(work.connection, owner).named(namespace, [file_id])[file_id]
        outcomes = []
        for _ in range(6):
            deleter = threading.Thread(target=take_out, args=(owner, namespace, DocumentId(file_id), use_alone))
            deleter.start()
            try:
                ticket = describe_file(owner, before, {"n": 1}, use_alone, notify=lambda _: None, request_id="r")
                outcomes.append(None if ticket is None else "accepted")
                if ticket is not None:
                    work_off(use_alone, ticket)
            except NoSuchFile:
                outcomes.append("refused")
            deleter.join()
            assert files_in(owner, use_alone, namespace) == {}, outcomes
            work_off(use_alone, put(owner, use_alone, namespace, file_id))


class DescribeKeeping:
    def it_counts_files_against_the_quota_of_documents(self, owner, use_alone):
        in_mysql(use_alone, "UPDATE tenants SET quota_documents = 2 WHERE tenant_id = :t", t=owner)
        kept(owner, use_alone)
        kept(owner, use_alone)
        with pytest.raises(QuotaExceeded):
            kept(owner, use_alone)
        with unit_of_work(use_alone.mysql) as work:
            assert StoredFiles(work.connection, owner).count() == 2

    def it_forgets_a_file_everywhere_when_its_time_is_up(self, owner, use_alone, namespace):
        file_id = kept(owner, use_alone, expires_after_s=3600)
        work_off(use_alone, put(owner, use_alone, namespace, file_id))
        expire(use_alone)
        assert files_in(owner, use_alone, namespace) == {file_id: "completed"}
        _let_pass(use_alone, owner, "stored_files", hours=2)
        with unit_of_work(use_alone.mysql) as work:
            assert StoredFiles(work.connection, owner).named([file_id]) == {}  # at once, not when it is swept
        assert expire(use_alone) == 1
        assert files_in(owner, use_alone, namespace) == {}
        with unit_of_work(use_alone.mysql) as work:
            assert StoredFiles(work.connection, owner).body(file_id) is None
        assert expire(use_alone) == 0

    def it_empties_a_store_that_nobody_used(self, owner, use_alone):
        moment = datetime.now(UTC)
        store = VectorStore(namespace="vs_a", name="A", created_at=moment, last_active_at=moment, expires_after_days=1)
        open_store(owner, store, use_alone)
        namespace = Namespace("vs_a")
        file_id = kept(owner, use_alone)
        work_off(use_alone, put(owner, use_alone, namespace, file_id))
        _let_pass(use_alone, owner, "vector_stores", hours=25)
        assert expire(use_alone) == 1
        assert files_in(owner, use_alone, namespace) == {}
        with unit_of_work(use_alone.mysql) as work:
            stores = VectorStores(work.connection, owner)
            stores.touch([namespace])
            assert stores.one(namespace).has_expired(datetime.now(UTC))  # using it does not bring it back
            assert StoredFiles(work.connection, owner).count() == 1
        assert expire(use_alone) == 0

    @pytest.mark.thorough
    def it_empties_a_store_again_that_was_kept_longer_and_then_expired(self, owner, use_alone):
        moment = datetime.now(UTC)
        store = VectorStore(namespace="vs_a", name="A", created_at=moment, last_active_at=moment, expires_after_days=1)
        open_store(owner, store, use_alone)
        namespace = Namespace("vs_a")
        _let_pass(use_alone, owner, "vector_stores", hours=25)
        assert expire(use_alone) == 1
        change_store(owner, namespace, lambda store: replace(store, last_active_at=datetime.now(UTC)), use_alone)
        file_id = kept(owner, use_alone)
        work_off(use_alone, put(owner, use_alone, namespace, file_id))
        assert expire(use_alone) == 0
        assert files_in(owner, use_alone, namespace) == {file_id: "completed"}
        _let_pass(use_alone, owner, "vector_stores", hours=25)
        assert expire(use_alone) == 1
        assert files_in(owner, use_alone, namespace) == {}
        assert expire(use_alone) == 0

    @pytest.mark.thorough
    def it_keeps_a_store_that_is_to_be_kept_longer_since_it_was_found_expired(self, owner, use_alone, monkeypatch):
        moment = datetime.now(UTC)
        store = VectorStore(namespace="vs_a", name="A", created_at=moment, last_active_at=moment, expires_after_days=1)
        open_store(owner, store, use_alone)
        namespace = Namespace("vs_a")
        file_id = kept(owner, use_alone)
        work_off(use_alone, put(owner, use_alone, namespace, file_id))
        _let_pass(use_alone, owner, "vector_stores", hours=25)
        real = sweep.expired_stores

        def then_changed(connection, **limits):
            found = real(connection, **limits)
            change_store(owner, namespace, lambda store: replace(store, expires_after_days=9), use_alone)
            return found

        monkeypatch.setattr(sweep, "expired_stores", then_changed)
        assert expire(use_alone) == 0
        assert files_in(owner, use_alone, namespace) == {file_id: "completed"}

    @pytest.mark.parametrize("used", ["asked", "written"])
    def it_keeps_a_store_that_is_used_through_any_door(self, owner, use_alone, used):
        moment = datetime.now(UTC)
        store = VectorStore(namespace="vs_a", name="A", created_at=moment, last_active_at=moment, expires_after_days=1)
        open_store(owner, store, use_alone)
        namespace = Namespace("vs_a")
        _let_pass(use_alone, owner, "vector_stores", hours=23)
        if used == "asked":
            asyncio.run(KnownNamespaces(asyncio.to_thread, use_alone, lambda: False).require(owner, [namespace]))
        else:
            written(owner, use_alone, namespace, "d", b"An owl.")
        _let_pass(use_alone, owner, "vector_stores", hours=23)
        assert expire(use_alone) == 0
        with unit_of_work(use_alone.mysql) as work:
            found = VectorStores(work.connection, owner).one(namespace)
        assert not found.has_expired(datetime.now(UTC))
        assert found.last_active_at > moment - timedelta(hours=24)

    def it_leaves_nothing_of_a_store_when_its_namespace_is_deleted(self, owner, use_alone, namespace):
        put(owner, use_alone, namespace, kept(owner, use_alone))
        delete_namespace(owner, namespace, use_alone)
        for table in ("attachments", "vector_stores", "namespaces"):
            with unit_of_work(use_alone.mysql) as work:
                rows = work.connection.execute(text(f"SELECT COUNT(*) FROM {table} WHERE tenant_id = :t"), {"t": owner})
                assert rows.scalar_one() == 0, table


def _let_pass(use, owner, table: str, *, hours: int) -> None:
    """As if what expires of a tenant had been made, or last used, so much earlier."""
    since = ("created_at",) if table == "stored_files" else ("last_active_at", "emptied_at")
    passed = ", ".join(f"{column} = DATE_SUB({column}, INTERVAL {hours} HOUR)" for column in ("expires_at", *since))
    in_mysql(use, f"UPDATE {table} SET {passed} WHERE tenant_id = :t", t=owner)
