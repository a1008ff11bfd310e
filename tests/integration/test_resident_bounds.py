"""What copies of keyword indexes may take of a process, when they are made, and what happens where they cannot be."""

from __future__ import annotations

import time
from typing import Any

import pytest
from sqlalchemy import event
from structlog.testing import capture_logs

from pipeline.channels import copies
from pipeline.channels.keyword import KeywordChannel
from pipeline.channels.resident import ResidentIndexes
from pipeline.flows.edit import delete_document
from pipeline.flows.resources import Resources
from pipeline.records import DocumentId, Namespace, TenantId
from pipeline.stores.engines import mysql_engine
from tests.conftest import make_tenant
from tests.integration.test_ingest_flow import Corner, _upload
from tests.integration.test_keyword_channel import query
from tests.support.resident import ANIMALS, Process, animals

_PATIENCE_S = 30.0


@pytest.fixture
def use(use_alone: Resources) -> Resources:
    """Stores that the stack's own workers and sweeper do not know."""
    return use_alone


@pytest.fixture
def corner(use: Resources, tenant: TenantId, namespace: Namespace) -> Corner:
    return animals(use, tenant, namespace)


def _delete(corner: Corner) -> None:
    assert delete_document(corner.tenant, corner.namespace, DocumentId("foxes"), corner.use)


class DescribeBounds:
    def it_holds_no_more_than_it_may(self, corner, use):
        process = Process(corner)
        process.warm()
        taken = process.indexes.byte_count
        small = Process(corner, most_bytes=taken + taken // 2)
        beside = Corner(use, corner.tenant, Namespace("beside"))
        beside.ingest(*(_upload(name, body, title=f"Tale {name[0]}") for name, body in ANIMALS.items()))
        small.warm()
        small.warm(beside)
        assert small.outcomes == ["loaded", "loaded"]
        assert small.indexes.byte_count <= taken + taken // 2
        assert (small.method(beside), small.method()) == ("resident", "fulltext")

    def it_gives_up_what_only_spares_reading_before_what_is_searched(self, corner, use):
        process = Process(corner)
        process.warm()
        whole = process.indexes.byte_count
        (copy,) = process.indexes._copies._copies.values()
        assert copy.held.listing is not None
        small = Process(corner, most_bytes=2 * whole - 1)
        beside = Corner(use, corner.tenant, Namespace("beside"))
        beside.ingest(*(_upload(name, body, title=f"Tale {name[0]}") for name, body in ANIMALS.items()))
        small.warm()
        small.warm(beside)
        assert (small.method(), small.method(beside)) == ("resident", "resident")
        assert small.indexes.byte_count == 2 * whole - copy.held.listing.byte_count

    def it_reads_nothing_that_is_too_large(self, corner):
        off, tiny, narrow = (Process(corner, most_bytes=most) for most in (0, 100, 700))
        for each in (off, tiny, narrow):
            each.warm()
            each.warm()
            assert (each.method(), each.indexes.byte_count) == ("fulltext", 0)
        assert (off.outcomes, tiny.outcomes, narrow.outcomes) == ([], [], ["too_large"])

    def it_rests_after_a_copy_was_made(self, corner):
        process = Process(corner, rests=1e9)
        process.warm()
        corner.ingest(_upload("foxes", "Bears dance."))
        process.warm()
        process.warm()
        assert (process.outcomes, process.method()) == (["loaded"], "fulltext")

    def it_makes_none_of_what_changes_between_questions(self, corner):
        process = Process(corner)
        for number in range(copies._ASKED + 1):
            process.ask("foxes")
            corner.ingest(_upload("moving", f"Version {number}."))
        assert process.outcomes == []

    def it_makes_none_of_what_is_asked_about_now_and_then(self, corner):
        moment = [0.0]
        outcomes: list[str] = []
        indexes = ResidentIndexes(
            corner.use.mysql,
            most_bytes=2**20,
            tell=outcomes.append,
            start=lambda work: work(),
            rests=0.0,
            clock=lambda: moment[0],
        )
        channel = KeywordChannel(corner.use.mysql, indexes)
        for _ in range(2 * copies._ASKED):
            channel.recall(query(corner, "foxes"))
            moment[0] += copies._WITHIN_S
        assert outcomes == []

    def it_lets_go_of_what_nobody_asks_for(self, corner, use):
        moment = [0.0]
        indexes = ResidentIndexes(
            use.mysql, most_bytes=2**20, start=lambda work: work(), rests=0.0, clock=lambda: moment[0]
        )
        channel = KeywordChannel(use.mysql, indexes)
        for _ in range(copies._ASKED):
            channel.recall(query(corner, "foxes"))
        assert indexes.byte_count > 0
        moment[0] += copies._IDLE_S + 1
        other = Corner(use, make_tenant(use)[0], corner.namespace)
        other.ingest(_upload("theirs", "Foxes."))
        channel.recall(query(other, "foxes"))
        assert indexes.byte_count == 0

    def it_keeps_no_copy_of_what_changed_while_it_was_read(self, corner, use):
        process = Process(corner)

        waiting = [_delete]

        def change(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
            if "documents d STRAIGHT_JOIN chunks" in statement and waiting:
                waiting.pop()(corner)

        event.listen(use.mysql, "before_cursor_execute", change)
        process.warm()
        event.remove(use.mysql, "before_cursor_execute", change)
        assert process.outcomes == ["changed"]
        assert (process.method(), process.documents("foxes")) == ("fulltext", ["hares"])


class DescribeFailures:
    def it_goes_on_with_fulltext_where_the_store_fails(self, corner, use):
        gone = mysql_engine(
            use.settings.model_copy(
                update={"mysql_url": type(use.settings.mysql_url)("mysql+pymysql://x@127.0.0.1:9/x")}
            )
        )
        outcomes: list[str] = []
        indexes = ResidentIndexes(gone, most_bytes=2**20, tell=outcomes.append, start=lambda work: work(), rests=0.0)
        channel = KeywordChannel(use.mysql, indexes)
        with capture_logs() as logs:
            for _ in range(copies._ASKED):
                found = channel.recall(query(corner, "foxes"))
        assert (outcomes, len(found.chunk_ids)) == (["failed"], 2)
        assert [each["event"] for each in logs] == ["keyword_index_not_loaded"]
        assert logs[0]["code"] == "store_unavailable"

    def it_tells_what_it_holds_without_any_text(self, corner):
        with capture_logs() as logs:
            Process(corner).warm()
        [told] = [each for each in logs if each["event"] == "keyword_index_loaded"]
        assert (told["chunks"], told["tenant_id"]) == (len(ANIMALS), corner.tenant)
        assert set(told) == {"event", "log_level", "tenant_id", "chunks", "terms", "bytes", "elapsed_ms", "cpu_ms"}

    def it_makes_copies_in_a_thread_of_its_own_over_a_worker_s_connections(self, corner, use):
        worker = Resources(use.settings, timeout_s=5.0, reading=True)
        done: list[str] = []
        indexes = ResidentIndexes(worker.mysql, most_bytes=2**20, tell=done.append, rests=0.0)
        channel = KeywordChannel(worker.mysql, indexes)
        until = time.monotonic() + _PATIENCE_S
        found = channel.recall(query(corner, "foxes"))
        while not (done and (found.guard or {})["method"] == "resident") and time.monotonic() < until:
            time.sleep(0.01)
            found = channel.recall(query(corner, "foxes"))
        assert (done, len(found.chunk_ids), (found.guard or {})["method"]) == (["loaded"], 2, "resident")
        assert worker.mysql.pool.checkedout() == 0  # type: ignore[attr-defined]
        worker.close()
