"""Documents that are fetched, on the real stores and from a real server: kept once they have come, retried until then."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_network

import pytest

from chordwise.contract.job import Item
from pipeline.administration.steer_jobs import cancel
from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents.document_view_store import DocumentViews
from pipeline.ingestion.accept import AcceptedJob
from pipeline.ingestion.fetch import start_fetches
from pipeline.ingestion.reingest import DocumentChanges, reingest, roll_back
from pipeline.ingestion.run import take
from pipeline.jobs.control_store import DeadLetters
from pipeline.jobs.job_views import DeadLetterFilter
from pipeline.outbound.fetch_client import Fetcher
from pipeline.records import OCTETS, DocumentId, Namespace, TenantId, Upload
from pipeline.resources import Resources
from tests.conftest import make_tenant
from tests.support.corpora.uploads import upload
from tests.support.servers.web_server import WebServer, page, redirect, slow
from tests.support.stacks.connections import sharing
from tests.support.stacks.corner import Corner, items_of
from tests.support.stacks.one_job import ingest_batch


@pytest.fixture
def web() -> Iterator[WebServer]:
    with WebServer() as server:
        yield server


def patient(use_alone: Resources, **changes) -> Resources:
    """The same connections; documents may be fetched from loopback."""
    most = changes.get("max_document_bytes", use_alone.settings.max_document_bytes)
    fetcher = Fetcher(timeout_s=3.0, max_bytes=most, permitted=(ip_network("127.0.0.0/8"),))
    return sharing(use_alone, parser=use_alone.parser, fetcher=fetcher, **changes)


@dataclass(eq=False)
class Fetching(Corner):
    """A corner whose documents may be at addresses; it counts the notifications that were sent for it."""

    notifications: int = 0

    def notify(self, *_: object) -> None:
        self.notifications += 1

    def work(self, ticket: AcceptedJob, use: Resources | None = None) -> None:
        """Until nothing is due and nothing is being fetched."""
        while ingest_batch(self.tenant, ticket.job_id, self.use, notify=self.notify) or not self._all_fetched():
            pass

    def _all_fetched(self) -> bool:
        busy = bool(self.use.fetches._running)
        assert self.use.fetches.wait(20)
        return not busy

    def fetch(self, *uploads: Upload) -> dict[str | None, Item]:
        ticket = self.accept(*uploads)
        self.work(ticket)
        return self.items(ticket)

    def items(self, ticket: AcceptedJob) -> dict[str | None, Item]:
        return {item.document_id: item for item in items_of(self.use, ticket)}

    def make_due(self) -> None:
        self.execute(
            "UPDATE job_items SET next_attempt_at = '2020-01-01' WHERE tenant_id = :tenant AND state = 'queued'"
        )


@pytest.fixture
def corner(use_alone: Resources, namespace: Namespace) -> Fetching:
    return Fetching(patient(use_alone), make_tenant(use_alone)[0], namespace)


def at(uri: str, document_id: str = "d", media_type: str = OCTETS) -> Upload:
    return upload(document_id, media_type=media_type, source_uri=uri, to_fetch=True)


def written(document_id: str) -> Upload:
    return upload(document_id, "A kettle.")


class DescribeAFetchedDocument:
    def it_is_found_as_if_it_had_been_sent(self, corner, web):
        body = b"<title>Owls</title><h1>Owls</h1><p>The grey owl flies at night."
        web.pages["/old"] = redirect("/owls.html")
        web.pages["/owls.html"] = page(body)
        item = corner.fetch(at(web.url("/old")))["d"]
        assert (item.status, item.outcome, item.chunks, item.attempts) == ("succeeded", "created", 1, 1)
        with unit_of_work(corner.use.mysql) as work:
            view = DocumentViews(work.connection, corner.tenant).view(corner.namespace, DocumentId("d"), reads_as=None)
        assert view is not None
        assert (view.media_type, view.fields.title) == ("text/html; charset=utf-8", "Owls")
        assert view.source_uri == web.url("/old")
        [(digest,)] = corner.execute("SELECT content_hash FROM generations WHERE tenant_id = :tenant")
        assert digest == hashlib.sha256(body).digest()

    @pytest.mark.thorough
    @pytest.mark.parametrize("size", ["body_bytes", "0"], ids=["with its size", "as former versions stored it"])
    def it_can_be_changed_and_rolled_back_when_its_address_is_gone(self, corner, web, size):
        web.pages["/bolts"] = page("螺栓 bolt".encode(), media_type="text/plain; charset=utf-8")
        corner.fetch(at(web.url("/bolts")))
        web.pages.clear()
        corner.execute(f"UPDATE generations SET body_bytes = {size} WHERE tenant_id = :tenant")
        named = (corner.tenant, corner.namespace)
        changes = DocumentChanges(add_tags=("五金",))
        changed = reingest(*named, [DocumentId("d")], changes, corner.use, request_id="r", notify=corner.notify)
        assert changed is not None
        corner.work(changed)
        back = roll_back(*named, DocumentId("d"), corner.use, request_id="r", notify=corner.notify)
        assert back is not None
        corner.work(back)
        for ticket in (changed, back):
            assert corner.items(ticket)["d"].status == "succeeded"
        assert corner.shown()["d"] == ["螺栓 bolt"]

    def it_is_not_fetched_again_once_it_has_come(self, corner, web):
        web.pages["/"] = page(b"The grey owl.", media_type="text/plain")
        ticket = corner.accept(at(web.url()))
        assert ingest_batch(corner.tenant, ticket.job_id, corner.use, notify=corner.notify) == 1
        assert corner.use.fetches.wait(10)
        assert corner.items(ticket)["d"].status == "queued"
        assert corner.notifications == 1
        web.pages["/"] = page(b"gone", status=500)
        corner.work(ticket)
        assert corner.items(ticket)["d"].status == "succeeded"
        assert web.asked == {"/": 1}

    @pytest.mark.thorough
    def it_is_fetched_anew_when_it_is_sent_again(self, corner, web):
        web.pages["/"] = page(b"The grey owl.", media_type="text/plain")
        corner.fetch(at(web.url()))
        web.pages["/"] = page(b"The brown owl.", media_type="text/plain")
        assert corner.fetch(at(web.url()))["d"].outcome == "replaced"
        chunks = corner.execute(
            "SELECT c.text FROM chunks c JOIN documents d ON d.tenant_id = c.tenant_id AND d.document_id = c.document_id"
            " AND d.published_generation = c.generation WHERE c.tenant_id = :tenant"
        )
        assert chunks == [("The brown owl.",)]


class DescribeWhatCannotBeFetched:
    def it_is_parked_with_the_reason_and_can_be_replayed(self, corner, web):
        web.pages["/gone"] = page(b"", status=404)
        web.pages["/inner"] = redirect("http://169.254.169.254/latest/meta-data/")
        ticket = corner.accept(at(web.url("/gone"), "gone"), at(web.url("/inner"), "inner"), written("fine"))
        corner.work(ticket)
        found = corner.items(ticket)
        assert {name: item.code or item.status for name, item in found.items()} == {
            "gone": "fetch_failed",
            "inner": "fetch_refused",
            "fine": "succeeded",
        }
        assert found["gone"].detail == "127.0.0.1 answered 404 Not Found"
        with unit_of_work(corner.use.mysql) as work:
            letters = DeadLetters(work.connection, corner.tenant).page(
                DeadLetterFilter(code="fetch_failed"), before=None, limit=9
            )
        assert [(letter.payload.available, letter.payload.content_hash) for letter in letters] == [(True, None)]

    def it_is_tried_again_when_the_server_asked_for(self, corner, web):
        web.pages["/"] = page(b"", status=429, Retry_After="120")
        ticket = corner.accept(at(web.url()))
        corner.work(ticket)
        item = corner.items(ticket)["d"]
        assert (item.status, item.code, item.attempts) == ("queued", "fetch_unavailable", 1)
        [(wait_s,)] = corner.execute(
            "SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), next_attempt_at) FROM job_items WHERE tenant_id = :tenant"
        )
        assert 110 <= wait_s <= 120
        web.pages["/"] = page(b"The grey owl.", media_type="text/plain")
        corner.make_due()
        corner.work(ticket)
        assert corner.items(ticket)["d"].status == "succeeded"

    @pytest.mark.thorough
    def it_is_given_up_after_the_last_attempt(self, corner, web):
        corner.use = patient(corner.use, ingest_max_attempts=2)
        web.pages["/"] = page(b"", status=503)
        ticket = corner.accept(at(web.url()))
        for _ in range(3):
            corner.work(ticket)
            corner.make_due()
        item = corner.items(ticket)["d"]
        assert (item.status, item.code, web.asked["/"]) == ("failed", "fetch_unavailable", 2)


class DescribeManyAtOnce:
    def it_fetches_them_side_by_side_and_lets_nothing_wait_for_a_slow_one(self, corner, web):
        for number in range(8):
            web.pages[f"/{number}"] = slow(0.4, page(b"The grey owl.", media_type="text/plain"))
        web.pages["/slow"] = slow(2.0, page(b"The slow owl.", media_type="text/plain"))
        uploads = [at(web.url(f"/{number}"), f"d{number}") for number in range(8)]
        ticket = corner.accept(at(web.url("/slow"), "slow"), *uploads, written("text"))
        began = time.monotonic()
        done: dict[str | None, float] = {}
        while len(done) < 10 and time.monotonic() - began < 15:
            ingest_batch(corner.tenant, ticket.job_id, corner.use, notify=corner.notify)
            for name, item in corner.items(ticket).items():
                if item.status == "succeeded":
                    done.setdefault(name, time.monotonic() - began)
            time.sleep(0.02)
        assert len(done) == 10
        assert web.most_under_way > 4
        assert done["text"] < 1.5
        assert max(done[f"d{number}"] for number in range(8)) < done["slow"]

    def it_renews_the_lease_while_it_waits(self, corner, web):
        corner.use = patient(corner.use, ingest_lease_s=1.0)
        web.pages["/"] = slow(2.5, page(b"The grey owl.", media_type="text/plain"))
        ticket = corner.accept(at(web.url()))
        ingest_batch(corner.tenant, ticket.job_id, corner.use, notify=corner.notify)
        ends = time.monotonic() + 2.0
        while time.monotonic() < ends:
            overdue = corner.execute(
                "SELECT 1 FROM job_items WHERE tenant_id = :tenant AND state = 'running' AND lease_until < UTC_TIMESTAMP(6)"
            )
            assert overdue == []
            time.sleep(0.1)
        corner.work(ticket)
        assert corner.items(ticket)["d"].status == "succeeded"
        assert web.asked == {"/": 1}

    def it_leaves_room_for_other_tenants(self, corner, web):
        ready = threading.Event()

        def hanging(handler) -> None:
            ready.wait(10)

        web.pages["/"] = hanging
        ticket = corner.accept(*(at(web.url(), f"d{number}") for number in range(30)))
        while ingest_batch(corner.tenant, ticket.job_id, corner.use, notify=corner.notify):
            pass
        assert corner.use.fetches.room(corner.tenant) == 0
        assert corner.use.fetches.room(TenantId("another")) == 4
        text_job = corner.accept(written("text"))
        assert ingest_batch(corner.tenant, text_job.job_id, corner.use, notify=corner.notify) == 1
        assert corner.items(text_job)["text"].status == "succeeded"
        cancel(corner.tenant, ticket.job_id, corner.use)
        ready.set()
        assert corner.use.fetches.wait(10)
        assert corner.use.fetches.room(corner.tenant) == 12

    @pytest.mark.thorough
    def it_keeps_nothing_of_what_was_cancelled_meanwhile(self, corner, web):
        web.pages["/"] = slow(0.5, page(b"The grey owl.", media_type="text/plain"))
        ticket = corner.accept(at(web.url()))
        ingest_batch(corner.tenant, ticket.job_id, corner.use, notify=corner.notify)
        cancel(corner.tenant, ticket.job_id, corner.use)
        corner.work(ticket)
        assert corner.items(ticket)["d"].status == "cancelled"
        assert corner.execute("SELECT LENGTH(body), to_fetch FROM payloads WHERE tenant_id = :tenant") == [(0, 1)]

    def it_is_fetched_by_the_next_worker_if_this_one_dies(self, corner, web):
        web.pages["/"] = page(b"The grey owl.", media_type="text/plain")
        ticket = corner.accept(at(web.url()))
        claims = take(corner.tenant, ticket.job_id, corner.use)
        assert claims is not None
        assert [claim.to_fetch for claim in claims.items] == [True]
        corner.execute("UPDATE job_items SET lease_until = '2020-01-01' WHERE tenant_id = :tenant")
        from pipeline.jobs.ledger_store import Ledger

        with unit_of_work(corner.use.mysql) as work:
            assert Ledger(work.connection, corner.tenant).release_expired() == 1
        corner.work(ticket)
        assert corner.items(ticket)["d"].status == "succeeded"
        # The first one comes back from the dead: what it brings is not kept.
        corner.execute("UPDATE payloads SET to_fetch = 1 WHERE tenant_id = :tenant")
        assert start_fetches(corner.tenant, claims.items, corner.use, notify=corner.notify) == []
        assert corner.use.fetches.wait(10)
        assert corner.execute("SELECT to_fetch FROM payloads WHERE tenant_id = :tenant") == [(1,)]
