"""Runs of followed sources on real stores: after a run the namespace equals the listing, wherever it was killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pipeline.administration import follow_sources
from pipeline.administration.delete_documents import delete_documents
from pipeline.maintenance.sweep import sweep
from pipeline.records import DocumentId, IngestQueue, JobId
from tests.support.servers.web_server import WebServer, page, waits
from tests.support.stacks.connections import sharing
from tests.support.stacks.follower import Follower, counts, quiet, reasons, write

pytestmark = pytest.mark.own_databases


class DescribeARun:
    def it_takes_in_what_is_new_or_changed_and_removes_what_is_gone(self, follower):
        write(follower.folder, **{f"{name}_md": f"Page {name} on kettles." for name in "abcdef"})
        follower.follow()
        assert counts(follower.run()) == {"listed": 6, "added": 6}
        assert follower.documents() == {f"{name}.md" for name in "abcdef"}
        assert follower.status() == "succeeded"
        assert counts(follower.run()) == {"listed": 6, "unchanged": 6}
        write(follower.folder, a_md="Another text on teapots.", hr__g_md="A new page.")
        (follower.folder / "b.md").unlink()
        assert counts(follower.run()) == {"listed": 6, "added": 1, "changed": 1, "removed": 1, "unchanged": 4}
        assert follower.documents() == {"a.md", "c.md", "d.md", "e.md", "f.md", "hr/g.md"}
        assert follower.corner.shown()["a.md"] == ["Another text on teapots."]

    def it_reads_a_touched_file_once(self, follower):
        write(follower.folder, a_md="Kettles.")
        follower.follow()
        follower.run()
        os.utime(follower.folder / "a.md", (1, 1))
        assert counts(follower.run()) == {"listed": 1, "changed": 1}
        assert counts(follower.run()) == {"listed": 1, "unchanged": 1}

    def it_names_and_skips_what_is_no_document(self, follower, tmp_path):
        write(follower.folder, a_md="Kettles.", empty_md="  ", rows_jsonl="{}")
        (follower.folder / os.fsdecode(b"\xff.md")).write_text("x")
        (follower.folder / "outside.md").symlink_to("/etc/passwd")
        (follower.folder / "loop").symlink_to(follower.folder)
        (follower.folder / "film.mp4").write_bytes(b"\0\0\0\x18ftypmp42" + b"\0" * 100)
        follower.follow()
        found = follower.run()
        assert follower.documents() == {"a.md"}
        assert reasons(found) == {
            "empty.md": "it is empty",
            "rows.jsonl": "JSON lines are many documents: send them to /v1/files",
            "\\xff.md": "its name is not UTF-8",
            "outside.md": "it is a link that leads out of the folder",
            "loop": "it is no file",
            "film.mp4": reasons(found)["film.mp4"],
        }
        assert "no parser" in reasons(found)["film.mp4"]

    def it_tries_a_file_that_cannot_be_parsed_again_once_it_changes(self, follower):
        write(follower.folder, a_md="Kettles.")
        (follower.folder / "b.pdf").write_bytes(b"%PDF-1.7 and nothing more")
        follower.follow()
        assert counts(follower.run()) == {"listed": 2, "added": 2}
        assert follower.status() == "partly_failed"
        for _ in range(2):
            found = follower.run()
            assert counts(found) == {"listed": 2, "unchanged": 1, "skipped": 1}
            assert follower.status() == "succeeded"
            assert "tried again once it changes" in reasons(found)["b.pdf"]
        (follower.folder / "b.pdf").write_bytes(b"%PDF-1.7 and a little more")
        assert counts(follower.run()) == {"listed": 2, "added": 1, "unchanged": 1}
        assert follower.status() == "partly_failed"

    def it_gives_documents_ids_tags_metadata_and_readers_by_rules(self, follower):
        write(follower.folder, a_md="Public.", hr__pay_md="Pay.", hr__drafts__x_md="Draft.")
        rules: Sequence[Mapping[str, Any]] = [
            {"tags": ["handbook"]},
            {
                "path": "hr/",
                "tags": ["hr"],
                "metadata": {"team": "hr"},
                "readers": ["group:hr"],
                "document_id": "hr-{stem}",
            },
            {"path": "**/drafts/**", "skip": True},
        ]
        follower.follow(rules=rules)
        assert reasons(follower.run()) == {"hr/drafts/x.md": "a rule skips it"}
        rows = follower.corner.execute(
            "SELECT document_id, tags, metadata, readers FROM generations WHERE tenant_id = :tenant"
        )
        assert {tuple(row) for row in rows} == {
            ("a.md", '["handbook"]', "{}", None),
            ("hr-pay", '["handbook","hr"]', '{"team":"hr"}', '["group:hr"]'),
        }
        follower.follow(rules=[{"tags": ["manual"]}, *rules[1:]])
        assert counts(follower.run()) == {"listed": 2, "changed": 2, "skipped": 1}

    def it_leaves_a_document_of_another_source_to_it(self, follower, tmp_path):
        write(follower.folder, a_md="Kettles.")
        follower.follow()
        follower.run()
        other = Follower(follower.corner, tmp_path / "other", "other")
        write(other.folder, a_md="Another file.")
        other.follow()
        assert "belongs to source docs" in reasons(other.run())["a.md"]
        assert follower.corner.shown()["a.md"] == ["Kettles."]

    def it_takes_a_document_back_in_that_was_deleted_by_hand(self, follower):
        write(follower.folder, a_md="Kettles.", b_md="Teapots.")
        follower.follow()
        follower.run()
        delete_documents(follower.corner.tenant, follower.corner.namespace, [DocumentId("a.md")], follower.corner.use)
        assert counts(follower.run()) == {"listed": 2, "added": 1, "unchanged": 1}
        assert follower.documents() == {"a.md", "b.md"}


class DescribeTheGuard:
    def it_asks_before_it_removes_more_than_a_fifth(self, follower):
        write(follower.folder, **{f"p{number}_md": f"Page {number}." for number in range(10)})
        follower.follow()
        follower.run()
        for number in range(3):
            (follower.folder / f"p{number}.md").unlink()
        write(follower.folder, new_md="A new page.")
        found = follower.run()
        assert (counts(found), found.held_removals) == ({"listed": 8, "added": 1, "unchanged": 7}, 3)
        assert len(follower.documents()) == 11
        found = follower.run(confirm=True)
        assert (counts(found), found.held_removals) == ({"listed": 8, "removed": 3, "unchanged": 8}, None)
        assert len(follower.documents()) == 8

    def it_asks_before_it_empties_a_namespace(self, follower):
        write(follower.folder, a_md="Kettles.")
        follower.follow()
        follower.run()
        (follower.folder / "a.md").unlink()
        assert follower.run().held_removals == 1
        write(follower.folder, a_md="Back.", b_md="Another.")
        assert follower.run().held_removals is None
        assert follower.documents() == {"a.md", "b.md"}

    def it_asks_again_if_more_is_gone_than_was_confirmed(self, follower):
        write(follower.folder, **{f"p{number}_md": f"Page {number}." for number in range(5)})
        follower.follow()
        follower.run()
        for number in range(2):
            (follower.folder / f"p{number}.md").unlink()
        follower.run()
        (follower.folder / "p2.md").unlink()
        assert follower.run(confirm=True).held_removals == 3
        assert len(follower.documents()) == 5

    def it_removes_nothing_while_a_folder_cannot_be_read(self, follower):
        write(follower.folder, **{f"p{number}_md": f"Page {number}." for number in range(9)}, hr__pay_md="Pay.")
        follower.follow()
        follower.run()
        shutil.rmtree(follower.folder / "hr")
        (follower.folder / os.fsdecode(b"h\xff")).mkdir()
        found = follower.run()
        assert found.held_removals is None
        assert "hr/pay.md" in follower.documents()


class _Killed(BaseException):
    """The worker died here."""


class DescribeAKilledRun:
    @pytest.mark.parametrize("moment", range(1, 9))
    def it_is_taken_again_and_completes(self, follower, moment, monkeypatch):
        write(follower.folder, **{f"p{number}_md": f"Page {number}." for number in range(12)})
        follower.follow()
        follower.run()
        write(follower.folder, **{f"p{number}_md": f"Page {number}, changed." for number in range(8)}, new_md="New.")
        (follower.folder / "p11.md").unlink()
        dying = sharing(follower.corner.use, mysql=_Dying(follower.corner.use.mysql, moment))
        with contextlib.suppress(_Killed):
            follower.run(use=dying)
        found = follower.run()
        assert follower.documents() == {f"p{number}.md" for number in range(11)} | {"new.md"}
        shown = follower.corner.shown()
        assert all(shown[f"p{number}.md"] == [f"Page {number}, changed."] for number in range(8))
        assert found.run is not None
        assert follower.status() == "succeeded"


class _Dying:
    """An engine whose ``moment``-th connection is the last: the worker is killed then."""

    def __init__(self, engine: Any, moment: int) -> None:
        self._engine, self._left = engine, moment

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise _Killed

    def begin(self) -> Any:
        self._count()
        return self._engine.begin()

    def connect(self) -> Any:
        self._count()
        return self._engine.connect()


class DescribeASchedule:
    def it_begins_a_run_when_one_is_due_and_none_is_under_way(self, follower):
        write(follower.folder, a_md="Kettles.")
        first = follower.follow().job_id
        follower.corner.execute("UPDATE followed_sources SET next_run_at = '2000-01-01' WHERE tenant_id = :tenant")
        sweep(follower.corner.use, notify=quiet)
        assert follower.source().job_id == first
        follower.carry_out(JobId(str(first)))
        follower.corner.execute("UPDATE followed_sources SET next_run_at = '2000-01-01' WHERE tenant_id = :tenant")
        notified: list[tuple[object, ...]] = []
        sweep(follower.corner.use, notify=lambda *notification: notified.append(notification))
        later = follower.source()
        assert later.job_id != first
        assert (follower.corner.tenant, later.job_id, IngestQueue.SOURCE) in notified
        assert later.next_run_at is not None

    def it_begins_none_while_paused(self, follower):
        source = follower.follow()
        follower.carry_out(JobId(str(source.job_id)))
        corner = follower.corner
        assert follow_sources.schedule(corner.tenant, corner.namespace, "docs", corner.use, paused=True)
        sweep(corner.use, notify=quiet)
        assert follower.source().job_id == source.job_id
        assert follower.source().next_run_at is None


class DescribeAStoreThatHangs:
    def it_costs_its_run_and_nothing_else(self, follower, tmp_path):
        write(follower.folder, a_md="Kettles.")
        follower.follow()
        follower.run()
        gate = threading.Event()
        with WebServer() as server:
            server.pages["/list/"] = waits(gate, page(b"late"))
            slow = Follower(follower.corner, follower.folder, "slow")
            slow.follow(server.url("/list/"))
            for _ in range(3):
                found = slow.run(pause_s=0.5)
            gate.set()
        assert found.run is not None
        assert found.run.error == "the source did not answer in time"
        assert follower.documents() == {"a.md"}


class DescribeARemovedSource:
    def it_takes_its_documents_along_and_ends_its_run(self, follower):
        write(follower.folder, a_md="Kettles.")
        job_id = JobId(str(follower.follow().job_id))
        follower.carry_out(job_id)
        later = follow_sources.run_now(
            follower.corner.tenant, follower.corner.namespace, "docs", follower.corner.use, request_id="r", notify=quiet
        )
        removed = follow_sources.remove(
            follower.corner.tenant, follower.corner.namespace, "docs", follower.corner.use, keep_documents=False
        )
        assert removed == 1
        assert later is not None
        follower.carry_out(later)
        assert follower.corner.job(follower.ticket(later)).status == "failed"
        assert follower.documents() == set()
        assert follower.corner.rows("followed_sources") == 0
