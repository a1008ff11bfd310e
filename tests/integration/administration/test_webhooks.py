"""Webhooks on the real stores, against faulty receivers: every event is delivered, and no event that did not happen."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from chordwise.contract.webhook import Delivery
from pipeline.administration import edit_webhooks, steer_jobs
from pipeline.database.unit_of_work import unit_of_work
from pipeline.jobs.control_store import JobControl
from pipeline.jobs.ledger_store import Ledger
from pipeline.jobs.outbox_store import Outbox
from pipeline.outbound.addresses import parse_networks
from pipeline.outbound.post_client import Poster
from pipeline.resources import Resources
from pipeline.webhooks.endpoint import DeliveryState, Webhook
from pipeline.webhooks.endpoint_store import Deliveries, Webhooks, claim
from pipeline.webhooks.standard_webhooks import DeliveryResult, secret_text
from tests.conftest import make_tenant
from tests.support.corpora.uploads import upload
from tests.support.servers.receiver import LOOPBACK, Receiver, receiving
from tests.support.stacks.connections import sharing
from tests.support.stacks.corner import Corner
from tests.support.stacks.one_job import ingest_batch

ENDS = ["job.succeeded", "job.partly_failed", "job.failed", "job.cancelled"]


def nobody(*_: object) -> None:
    """Take a notification and do nothing; the tests call the flow themselves."""


class Hooked(Corner):
    """A corner whose tenant has an endpoint."""

    def __init__(self, use: Resources, namespace, receiver: Receiver, events=ENDS) -> None:
        super().__init__(use, make_tenant(use)[0], namespace)
        self.receiver = receiver
        self.endpoint, self.secret = edit_webhooks.add(self.tenant, receiver.url, events, use)

    def deliveries(self) -> list[Delivery]:
        with unit_of_work(self.use.mysql) as work:
            store = Deliveries(work.connection, self.tenant)
            return store.page(self.endpoint.webhook_id, state=None, before=None, limit=100)

    def hook(self) -> Webhook:
        with unit_of_work(self.use.mysql) as work:
            found = Webhooks(work.connection, self.tenant).one(self.endpoint.webhook_id)
        assert found is not None
        return found

    def run(self, statement: str, **values: object) -> None:
        self.execute(statement + " WHERE tenant_id = :tenant", **values)

    def due(self) -> None:
        """Let what is to be sent be sent now, and what somebody is sending too."""
        self.run("UPDATE webhook_deliveries SET next_attempt_at = '2020-01-01', lease_until = NULL")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


def derived(use: Resources, *, outbox_filled=None, **changed: object) -> Resources:
    """Resources with other settings on the same connections."""
    return sharing(use, outbox_filled=outbox_filled, parser=use.parser, **changed)


@pytest.fixture
def open_use(use_alone: Resources) -> Resources:
    """Resources that may call loopback."""
    return derived(use_alone, webhook_allow_private=parse_networks(LOOPBACK))


@pytest.fixture
def closed_use(use_alone: Resources) -> Resources:
    """One that may call nothing inside, whatever the stack may."""
    return derived(use_alone, webhook_allow_private=())


@pytest.fixture
def hooked(open_use, namespace, receiver) -> Hooked:
    return Hooked(open_use, namespace, receiver)


@pytest.fixture(autouse=True)
def _nothing_left(use_alone: Resources) -> Iterator[None]:
    """The sender sends whatever is due, so no test may leave anything to the next."""
    yield
    with unit_of_work(use_alone.mysql) as work:
        for table in ("webhook_deliveries", "webhooks"):
            work.connection.execute(text(f"DELETE FROM {table}"))


class DescribeTheOutbox:
    def it_writes_the_end_and_the_message_together_or_not_at_all(self, hooked, open_use):
        ticket = hooked.accept(upload("a", "text"))

        def end_and_die() -> None:
            with unit_of_work(open_use.mysql) as work:
                JobControl(work.connection, hooked.tenant).cancel(ticket.job_id)
                ledger = Ledger(work.connection, hooked.tenant)
                assert ledger.close_if_done([ticket.job_id]) == [ticket.job_id]
                assert ledger.deliveries == 1
                raise SystemExit

        with pytest.raises(SystemExit):
            end_and_die()
        assert (hooked.deliveries(), hooked.job(ticket).finished_at) == ([], None)
        steer_jobs.cancel(hooked.tenant, ticket.job_id, open_use)
        [delivery] = hooked.deliveries()
        assert (delivery.event, delivery.job_id) == ("job.cancelled", ticket.job_id)
        assert hooked.job(ticket).finished_at is not None

    @pytest.mark.thorough
    def it_tells_again_when_a_job_ends_again(self, hooked, open_use):
        ticket = hooked.accept(upload("a", "text"))
        steer_jobs.cancel(hooked.tenant, ticket.job_id, open_use)
        steer_jobs.retry(hooked.tenant, ticket.job_id, open_use, notify=nobody)
        hooked.work(ticket)
        assert {delivery.event for delivery in hooked.deliveries()} == {"job.cancelled", "job.succeeded"}
        assert len({delivery.delivery_id for delivery in hooked.deliveries()}) == 2

    @pytest.mark.thorough
    def it_writes_the_same_message_once(self, hooked, open_use):
        job = hooked.ingest(upload("a", "text"))
        with unit_of_work(open_use.mysql) as work:
            assert Outbox(work.connection, hooked.tenant).job_ended(job.job_id) == 0
        assert len(hooked.deliveries()) == 1

    def it_tells_nobody_who_did_not_ask(self, open_use, namespace, receiver):
        corner = Hooked(open_use, namespace, receiver, ["job.failed"])
        corner.ingest(upload("a", "text"))
        assert corner.deliveries() == []
        stranger = Corner(open_use, make_tenant(open_use)[0], namespace)
        stranger.ingest(upload("a", " "))
        assert corner.deliveries() == []

    def it_nudges_the_sender_once_the_transaction_stands(self, hooked, open_use):
        nudges: list[int] = []
        nudging = derived(open_use, outbox_filled=lambda: nudges.append(len(hooked.deliveries())))
        ticket = hooked.accept(upload("a", "text"))
        while ingest_batch(hooked.tenant, ticket.job_id, nudging, notify=nobody):
            pass
        assert nudges == [1]

    @pytest.mark.thorough
    def it_tells_of_progress_what_is_new_and_nothing_twice(self, open_use, namespace, receiver):
        corner = Hooked(open_use, namespace, receiver, ["job.progress"])
        ticket = corner.accept(*[upload(f"d{n}", "text") for n in range(70)])
        assert edit_webhooks.note_progress(open_use) == 1
        assert edit_webhooks.note_progress(open_use) == 0
        ingest_batch(corner.tenant, ticket.job_id, open_use, notify=nobody)
        assert edit_webhooks.note_progress(open_use) == 1
        [newest] = corner.deliveries()  # the one before was overtaken
        edit_webhooks.deliver(open_use)
        assert receiver.calls[-1].json()["data"]["succeeded"] == 64
        assert receiver.calls[-1].message_id == newest.delivery_id
        corner.work(ticket)
        assert edit_webhooks.note_progress(open_use) == 0


class DescribeSending:
    def it_repeats_what_failed_under_the_same_id(self, hooked, open_use):
        hooked.receiver.answer(500)
        hooked.receiver.answer(302, Location="http://127.0.0.1:1/inside")
        hooked.ingest(upload("a", "text"))
        for errors in ("answered 500", "answered 302; redirects are not followed"):
            assert edit_webhooks.deliver(open_use) == 1
            [delivery] = hooked.deliveries()
            assert (delivery.state, delivery.last_error) == (DeliveryState.PENDING, errors)
            assert hooked.hook().failing_since is not None
            assert edit_webhooks.deliver(open_use) == 0  # not due yet
            hooked.due()
        edit_webhooks.deliver(open_use)
        assert [delivery.state for delivery in hooked.deliveries()] == [DeliveryState.DELIVERED]
        assert len({call.message_id for call in hooked.receiver.calls}) == 1
        assert len(hooked.receiver.calls) == 3
        assert {call.path for call in hooked.receiver.calls} == {"/hook"}
        assert hooked.hook().failing_since is None

    def it_sends_again_what_a_killed_sender_was_sending(self, hooked, open_use):
        hooked.ingest(upload("a", "text"))
        with unit_of_work(open_use.mysql) as work:
            [lost] = claim(work.connection, limit=10, per_endpoint=4, lease_s=60)  # and here it died
        assert edit_webhooks.deliver(open_use) == 0  # its lease runs
        hooked.run("UPDATE webhook_deliveries SET lease_until = '2020-01-01'")
        assert edit_webhooks.deliver(open_use) == 1
        [delivery] = hooked.deliveries()
        assert (delivery.attempts, delivery.delivery_id) == (2, hooked.receiver.calls[0].message_id)
        with unit_of_work(open_use.mysql) as work:  # were it to come back, it could not write any more
            verdict = DeliveryResult(delay_s=5)
            assert not Deliveries(work.connection, hooked.tenant).record_outcome(
                lost, verdict, status=500, error="late"
            )

    def it_gives_up_after_the_last_attempt_and_can_be_asked_again(self, hooked, open_use):
        hooked.ingest(upload("a", "text"))
        hooked.run("UPDATE webhook_deliveries SET attempts = 9")
        hooked.receiver.answer(503, Retry_After="7")
        edit_webhooks.deliver(open_use)
        [dead] = hooked.deliveries()
        assert (dead.state, dead.attempts, dead.last_status) == (DeliveryState.DEAD, 10, 503)
        with unit_of_work(open_use.mysql) as work:
            store = Deliveries(work.connection, hooked.tenant)
            assert store.send_again(hooked.endpoint.webhook_id, dead.delivery_id)
            assert not store.send_again(hooked.endpoint.webhook_id, dead.delivery_id)
        edit_webhooks.deliver(open_use)
        assert [delivery.state for delivery in hooked.deliveries()] == [DeliveryState.DELIVERED]
        assert {call.message_id for call in hooked.receiver.calls} == {dead.delivery_id}

    def it_does_not_wait_for_one_that_hangs(self, hooked, open_use, namespace):
        hooked.receiver.answer(200, wait_s=30)
        hooked.ingest(upload("a", "text"))
        with receiving() as other:
            prompt = Hooked(open_use, namespace, other)
            prompt.ingest(upload("b", "text"))
            began = time.monotonic()
            poster = Poster(permitted=open_use.settings.webhook_allow_private, connect_s=1, total_s=2)
            sender = threading.Thread(target=edit_webhooks.deliver, args=(open_use, poster))
            sender.start()
            other.wait_for(1, seconds=1.5)
            sender.join()
        assert 1.9 < time.monotonic() - began < 4
        [delivery] = hooked.deliveries()
        assert (delivery.state, delivery.last_error) == (DeliveryState.PENDING, "no answer within 2 s")

    @pytest.mark.thorough
    def it_takes_only_some_places_for_one_endpoint(self, hooked, open_use):
        for number in range(6):
            hooked.ingest(upload(f"d{number}", "text"))
        with unit_of_work(open_use.mysql) as work:
            assert len(claim(work.connection, limit=32, per_endpoint=4, lease_s=60)) == 4
            assert claim(work.connection, limit=32, per_endpoint=4, lease_s=60) == []

    @pytest.mark.thorough
    def it_disables_an_endpoint_that_failed_for_days(self, hooked, open_use):
        for number in range(2):
            hooked.ingest(upload(f"d{number}", "text"))
        hooked.receiver.answer(500)
        hooked.receiver.answer(500)
        hooked.run("UPDATE webhooks SET failing_since = '2026-01-01'")
        edit_webhooks.deliver(open_use)
        assert hooked.hook().disabled_reason == "failing"
        assert {delivery.state for delivery in hooked.deliveries()} == {DeliveryState.DEAD}
        hooked.ingest(upload("later", "text"))
        assert len(hooked.deliveries()) == 2
        with unit_of_work(open_use.mysql) as work:
            assert Webhooks(work.connection, hooked.tenant).enable(hooked.endpoint.webhook_id)
        hooked.ingest(upload("enabled", "text"))
        assert edit_webhooks.deliver(open_use) == 1

    @pytest.mark.thorough
    def it_calls_no_more_where_all_is_gone(self, hooked, open_use):
        hooked.receiver.answer(410)
        hooked.ingest(upload("a", "text"))
        edit_webhooks.deliver(open_use)
        assert (hooked.hook().disabled_reason, hooked.deliveries()[0].state) == ("gone", DeliveryState.DEAD)

    def it_seals_secrets_where_there_is_a_key(self, open_use, namespace, receiver):
        sealing = derived(open_use, secret_key=SecretStr("k"))
        corner = Hooked(sealing, namespace, receiver)
        raw = corner.hook().secret
        assert secret_text(raw[1:]) != corner.secret
        corner.ingest(upload("a", "text"))
        edit_webhooks.deliver(open_use)  # without the key
        assert "secret cannot be read" in (corner.deliveries()[0].last_error or "")
        assert receiver.calls == []
        corner.due()
        edit_webhooks.deliver(sealing)
        assert receiver.calls[0].signed_with(corner.secret)


class DescribeTheWayInside:
    def it_does_not_call_one_that_has_moved_inside(self, hooked, closed_use):
        hooked.ingest(upload("a", "text"))
        edit_webhooks.deliver(closed_use)  # permitted before, and no longer
        assert hooked.receiver.calls == []
        assert "has no address that this installation may call" in (hooked.deliveries()[0].last_error or "")

    def it_connects_to_the_address_it_has_checked(self, receiver, monkeypatch):
        """A name that resolves to something else at every look-up is looked up once."""
        port = int(receiver.url.split(":")[2].split("/")[0])
        asked: list[str] = []

        def rebinding(host, *arguments, **keywords):
            if host != "rebinding.example":
                return original(host, *arguments, **keywords)
            asked.append(host)
            address = "127.0.0.1" if len(asked) == 1 else "127.0.0.2"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

        original = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", rebinding)

        async def call():
            async with Poster(permitted=parse_networks("127.0.0.1/32")) as poster:
                return await poster.post(f"http://rebinding.example:{port}/hook", {"webhook-id": "m"}, b"{}")

        assert asyncio.run(call()).status == 204
        assert asked == ["rebinding.example"]
        assert receiver.calls[0].headers["host"] == f"rebinding.example:{port}"

    def it_reads_no_proxy_from_the_environment(self, hooked, open_use, monkeypatch):
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
        monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
        hooked.ingest(upload("a", "text"))
        edit_webhooks.deliver(open_use)
        assert len(hooked.receiver.calls) == 1


class DescribeForgetting:
    @pytest.mark.thorough
    def it_forgets_what_ended_long_ago(self, hooked, open_use):
        hooked.ingest(upload("a", "text"))
        edit_webhooks.deliver(open_use)
        assert edit_webhooks.forget_old(open_use) == 0
        hooked.run("UPDATE webhook_deliveries SET ended_at = '2020-01-01'")
        assert edit_webhooks.forget_old(open_use) == 1

    def it_says_nothing_of_a_secret_in_what_it_prints(self, hooked):
        assert "secret=" not in repr(hooked.hook())
        assert json.dumps(repr(hooked.hook())).find(hooked.secret[6:20]) == -1
