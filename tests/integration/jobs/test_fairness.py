"""Turns between tenants on the real stores: nobody waits for the end of somebody else's queue."""

from __future__ import annotations

import io
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, product
from typing import Any

import pytest
from openpyxl import Workbook
from sqlalchemy import text

from pipeline.database.unit_of_work import unit_of_work
from pipeline.database.worker_heartbeats import WorkerHeartbeat
from pipeline.errors import QuotaExceeded
from pipeline.ingestion.accept import AcceptedJob
from pipeline.ingestion.run import ingest_next, take, take_next
from pipeline.ingestion.yield_turn import Turn
from pipeline.jobs.ledger_store import Ledger
from pipeline.jobs.turn_store import turns
from pipeline.maintenance.sweep import sweep
from pipeline.models.ports import Embedder, Matrix
from pipeline.records import Chunking, IngestQueue, TenantId
from pipeline.resources import Resources
from pipeline.sandbox.parser import Parser
from tests.conftest import make_tenant
from tests.support.corpora.uploads import upload
from tests.support.stacks.connections import in_mysql, sharing
from tests.support.stacks.corner import items_of, job_of, submit

pytestmark = pytest.mark.own_databases


def send(use, tenant: TenantId, count: int, *, body: str = "The kettle boils.", prefix: str = "d") -> AcceptedJob:
    return submit(use, tenant, [upload(f"{prefix}{number}", f"{body} {number}") for number in range(count)])


@pytest.fixture
def tenants(use):
    found = [make_tenant(use)[0] for _ in range(3)]
    yield found
    with unit_of_work(use.mysql) as work:
        for tenant in found:  # the next test has its turns to itself
            work.connection.execute(text("DELETE FROM job_items WHERE tenant_id = :tenant"), {"tenant": tenant})
            work.connection.execute(text("DELETE FROM jobs WHERE tenant_id = :tenant"), {"tenant": tenant})


def served(use, ticket) -> int:
    return job_of(use, ticket).succeeded


def rows_read(use, read: Callable[[Any], object]) -> int:
    """Return how many rows MySQL reads for what ``read`` does with a connection."""
    with unit_of_work(use.mysql) as work:

        def count() -> int:
            rows = work.connection.execute(text("SHOW SESSION STATUS LIKE 'Handler_read%'"))
            return sum(int(value) for _, value in rows)

        before = count()
        read(work.connection)
        between = count()
        return (between - before) - (count() - between)


def heartbeat_of(queue: str) -> WorkerHeartbeat:
    now_s = time.time()
    return WorkerHeartbeat(
        name=f"{queue}@here",
        host="here",
        pid=1,
        queues=(queue,),
        version="0",
        celery="0",
        kombu="0",
        broker="redis",
        started_at=now_s,
        beat_at=now_s,
    )


class DescribeALongDocumentWithoutAWorkerOfItsQueue:
    @pytest.mark.parametrize(("served", "documents"), [(["ingest"], 1), (["ingest", "long"], 0), ([], 0)])
    def it_is_taken_by_a_worker_of_the_others(self, use, tenants, served, documents):
        send(use, tenants[0], 1)
        batch = take_next(use)
        Turn(batch.tenant_id, use, lambda *_: None, IngestQueue.INGEST).leave(long=batch.claims)
        beats = [heartbeat_of(queue) for queue in served]
        for beat in beats:
            use.heartbeats.beat(beat)
        try:
            notified = []
            sweep(use, notify=lambda *who: notified.append(who))
            assert [queue for tenant, _, queue in notified if tenant == tenants[0]] == (
                ["ingest"] if documents else ["long"]
            )
            assert ingest_next(use, notify=lambda *_: None) == documents
        finally:
            for beat in beats:
                use.heartbeats.withdraw(beat.worker_id)
        ingest_next(use, notify=lambda *_: None, queue=IngestQueue.LONG)


class DescribeALongBacklog:
    JOBS = 300

    @pytest.fixture
    def backlog(self, use, tenants):
        for number in range(self.JOBS):
            send(use, tenants[0], 1, prefix=f"j{number}-")
        return tenants[0]

    def it_is_not_read_to_take_a_batch(self, use, tenants, backlog):
        send(use, tenants[1], 1)
        assert rows_read(use, turns) < 2 * self.JOBS  # nine for each job where all are sorted
        assert {ingest_next(use, notify=lambda *_: None) for _ in range(2)} == {1}
        assert {waiting.tenant_id for waiting in _turns_of(use)} == {backlog}

    @pytest.mark.thorough
    def it_gets_a_few_notifications_from_the_sweeper_and_not_one_for_each_job(self, use, backlog):
        notified = []
        sweep(use, notify=lambda *who: notified.append(who))
        assert 10 <= sum(who[0] == backlog for who in notified) <= 40

    @pytest.mark.thorough
    def it_ends_although_every_notification_but_one_is_lost(self, use, backlog):
        notifications = [backlog]
        while notifications:
            notifications.pop()
            ingest_next(use, notify=lambda *who: notifications.append(who))
        assert count_of(use, backlog, "succeeded") == self.JOBS


def _turns_of(use):
    with unit_of_work(use.mysql) as work:
        return turns(work.connection)


def count_of(use, tenant: TenantId, state: str) -> int:
    with unit_of_work(use.mysql) as work:
        statement = text("SELECT COUNT(*) FROM job_items WHERE tenant_id = :tenant AND state = :state")
        return int(work.connection.execute(statement, {"tenant": tenant, "state": state}).scalar_one())


class DescribeTurns:
    def it_serves_a_small_job_before_the_next_batch_of_a_large_one(self, use, tenants):
        large, small, _ = tenants
        much = send(use, large, 150)
        assert ingest_next(use, notify=lambda *_: None) == 64
        one = send(use, small, 1)
        assert ingest_next(use, notify=lambda *_: None) == 1
        assert (served(use, one), served(use, much)) == (1, 64)

    def it_takes_smaller_batches_while_others_wait(self, use, tenants):
        send(use, tenants[0], 100)
        send(use, tenants[1], 100)
        assert [ingest_next(use, notify=lambda *_: None) for _ in range(2)] == [16, 16]

    def it_goes_round_the_tenants_and_the_jobs_of_each(self, use, tenants):
        few = sharing(use, ingest_batch_documents=4)
        tickets = [(tenant, send(use, tenant, 6, prefix=prefix)) for tenant in tenants for prefix in ("a", "b")]
        for _ in range(6):
            assert ingest_next(few, notify=lambda *_: None) == 1
        assert [served(use, ticket) for tenant, ticket in tickets] == [1] * 6

    def it_passes_the_notification_on_after_the_batch_and_only_while_there_is_work(self, use, tenants):
        send(use, tenants[0], 70)
        notified = []
        assert ingest_next(use, notify=lambda *who: notified.append(who)) == 64
        assert [who[0] for who in notified] == [tenants[0]]
        assert ingest_next(use, notify=lambda *who: notified.append(who)) == 6
        assert len(notified) == 1
        assert ingest_next(use, notify=lambda *who: notified.append(who)) == 0
        assert len(notified) == 1

    @pytest.mark.thorough
    def it_serves_another_tenant_although_one_has_hundreds_of_jobs(self, use, tenants):
        busy, other, _ = tenants
        send(use, other, 1)
        assert ingest_next(use, notify=lambda *_: None) == 1  # so that the other's turn comes later
        for number in range(201):
            send(use, busy, 1, prefix=f"job-{number}-")
        waiting = send(use, other, 1, prefix="next")
        batches = [take_next(use) for _ in range(2)]
        assert [batch and batch.tenant_id for batch in batches] == [busy, other]
        assert batches[1] is not None
        assert batches[1].claims[0].job_id == waiting.job_id

    def it_bounds_the_batches_of_one_tenant_that_are_under_way(self, use, tenants):
        capped = sharing(use, ingest_tenant_batches=2, ingest_batch_documents=3)
        ticket = send(use, tenants[0], 20)
        first, second = (take(tenants[0], ticket.job_id, capped) for _ in range(2))
        assert take(tenants[0], ticket.job_id, capped) is None
        assert ingest_next(capped, notify=lambda *_: None) == 0
        other = send(use, tenants[1], 1)
        assert ingest_next(capped, notify=lambda *_: None) == 1
        assert served(use, other) == 1
        with unit_of_work(use.mysql) as work:
            ledger = Ledger(work.connection, tenants[0])
            ledger.hold([*first.items, *second.items])
            ledger.put_back(first.items, delay_s=0, code="test", detail="test")
        assert ingest_next(capped, notify=lambda *_: None) == 3


class DescribeQuotas:
    def it_refuses_more_when_there_are_enough_chunks(self, use, tenants):
        small = sharing(use, quota_chunks=2)
        send(small, tenants[0], 2)
        while ingest_next(use, notify=lambda *_: None):
            pass
        with pytest.raises(QuotaExceeded):
            send(small, tenants[0], 1)

    def it_stores_nothing_of_what_it_refuses(self, use, tenants):
        with pytest.raises(QuotaExceeded):
            send(sharing(use, quota_documents=1), tenants[0], 2)
        with unit_of_work(use.mysql) as work:
            for table in ("documents", "generations", "payloads", "jobs", "job_items"):
                count = work.connection.execute(
                    text(f"SELECT COUNT(*) FROM {table} WHERE tenant_id = :tenant"), {"tenant": tenants[0]}
                )
                assert count.scalar_one() == 0


def _seconds_until_shown(use, tenant: TenantId, *, by_itself: bool = False) -> float:
    """Return the seconds from the acceptance of one line until a search finds it; ``by_itself``: a worker runs
    anyway."""
    began = time.monotonic()
    one = send(use, tenant, 1)
    if not by_itself:
        ingest_next(use, notify=lambda *_: None)
    while not served(use, one) and time.monotonic() - began < 30:
        time.sleep(0.05)
    return time.monotonic() - began


def _work_until(done: threading.Event, use: Resources, queue: IngestQueue) -> None:
    """Be the only worker of a queue."""
    while not done.is_set():
        if not ingest_next(use, notify=lambda *_: None, queue=queue):
            time.sleep(0.05)


@contextmanager
def _one_worker_of_each_queue(use: Resources) -> Iterator[None]:
    done = threading.Event()
    workers = [threading.Thread(target=_work_until, args=(done, use, queue)) for queue in IngestQueue]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        done.set()
        for worker in workers:
            worker.join()


def _is_over(use: Resources, ticket: AcceptedJob) -> bool:
    return job_of(use, ticket).status not in ("queued", "running")


class _SlowEmbedder:
    """Takes 6 ms for each text, as a large model does."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)

    def embed(self, texts: Sequence[str], *, timeout_s: float | None = None) -> Matrix:
        time.sleep(0.006 * len(texts))
        return self._embedder.embed(texts, timeout_s=timeout_s)


def _workbook() -> bytes:
    book = Workbook(write_only=True)
    sheet = book.create_sheet("cells")
    for row in range(1_000):
        sheet.append([f"行 {row} column {column}" for column in range(12)])
    held = io.BytesIO()
    book.save(held)
    return held.getvalue()


_NESTED = "".join(f"{'  ' * depth}- item **bold *em `code`*** [link](http://x/{depth})\n" for depth in range(40))

_PAGES = "\n\n".join(
    f"Paragraph {number} tells how pump {number * 7} is oiled, 第 {number} 段说明水泵的润滑。" * 6
    for number in range(1_200)
)

SLOW: dict[str, Callable[[], dict[str, Any]]] = {
    "sentences": lambda: {
        "body": ("句。" * 600_000).encode(),
        "media_type": "text/plain",
        "chunking": Chunking(strategy="window"),
    },
    "nested lists": lambda: {"body": (_NESTED * 160).encode(), "media_type": "text/markdown"},
    "pages": lambda: {"body": _PAGES.encode(), "media_type": "text/plain"},
    "workbook": lambda: {
        "body": _workbook(),
        "media_type": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    },
}


def _queues(use: Resources, tenant: TenantId) -> list[tuple[str, str, int, str | None]]:
    rows = in_mysql(
        use,
        "SELECT queue, state, attempts, error_code FROM job_items WHERE tenant_id = :tenant ORDER BY job_id, ordinal",
        tenant=tenant,
    )
    return [tuple(row) for row in rows]


class DescribeALongDocument:
    """A document that takes longer than its share while another tenant waits."""

    @pytest.fixture
    def slow(self, use):
        """A worker whose model takes 6 ms for each text."""
        return sharing(use, embedder=_SlowEmbedder(use.embedder))

    @pytest.fixture
    def long(self):
        return upload("long", "\n\n".join(_PAGES.split("\n\n")[:100]), chunking=Chunking(max_tokens=64))

    def it_leaves_its_batch_and_ends_in_the_queue_of_long_documents(self, use, tenants, slow, long):
        large = submit(slow, tenants[0], [long, upload("short", "The kettle boils.")])
        ingest_next(slow, notify=lambda *_: None)  # nobody else waits: it takes its time
        assert {item.status for item in items_of(use, large)} == {"succeeded"}
        send(use, tenants[2], 1, prefix="before")
        ingest_next(use, notify=lambda *_: None)  # so that its turn comes later
        again = submit(slow, tenants[1], [long, upload("short", "The kettle boils.")])
        send(use, tenants[2], 1)
        notified: list[tuple[object, ...]] = []
        assert ingest_next(slow, notify=lambda *who: notified.append(who)) == 2
        assert _queues(use, tenants[1])[0] == ("long", "queued", 0, "ingest_crowded")
        assert (tenants[1], again.job_id, IngestQueue.LONG) in notified
        assert ingest_next(slow, notify=lambda *_: None, queue=IngestQueue.LONG) == 1
        while ingest_next(slow, notify=lambda *_: None):
            pass
        assert [(item.status, item.code, item.attempts) for item in items_of(use, again)] == [
            ("succeeded", None, 1)
        ] * 2

    def it_is_claimed_by_workers_of_its_queue_only(self, use, tenants, long):
        ticket = submit(use, tenants[0], [long])
        (claim,) = take(tenants[0], ticket.job_id, use).items
        Turn(tenants[0], use, lambda *_: None, IngestQueue.INGEST).leave(long=[claim])
        assert take_next(use) is None
        batch = take_next(use, queue=IngestQueue.LONG)
        assert batch is not None
        assert [each.fencing_token for each in batch.claims] == [claim.fencing_token + 1]
        assert take_next(use, queue=IngestQueue.LONG) is None

    def it_takes_turns_with_long_documents_of_other_tenants(self, use, tenants):
        for tenant in tenants[:2]:
            ticket = send(use, tenant, 3)
            claims = take(tenant, ticket.job_id, use).items
            Turn(tenant, use, lambda *_: None, IngestQueue.INGEST).leave(long=claims)
        served = []
        while batch := take_next(use, queue=IngestQueue.LONG):
            served.append((batch.tenant_id, len(batch.claims)))
            send(use, tenants[0], 1, prefix=f"short-{len(served)}-")
            ingest_next(
                use, notify=lambda *_: None
            )  # a tenant that always has short ones loses no turn with its long ones
        assert served == [(tenants[0], 1), (tenants[1], 1)] * 3 or served == [(tenants[1], 1), (tenants[0], 1)] * 3

    def it_comes_back_if_its_worker_dies(self, use, tenants):
        ticket = send(use, tenants[0], 1)
        turn = Turn(tenants[0], use, lambda *_: None, IngestQueue.INGEST)
        turn.leave(long=take(tenants[0], ticket.job_id, use).items)
        assert take_next(use, queue=IngestQueue.LONG) is not None
        in_mysql(use, "UPDATE job_items SET lease_until = '2000-01-01' WHERE tenant_id = :tenant", tenant=tenants[0])
        notified: list[tuple[object, ...]] = []
        sweep(use, notify=lambda *who: notified.append(who))
        assert (tenants[0], ticket.job_id, IngestQueue.LONG) in notified
        assert _queues(use, tenants[0]) == [("long", "queued", 1, "worker_lost")]
        assert ingest_next(use, notify=lambda *_: None, queue=IngestQueue.LONG) == 1
        assert served(use, ticket) == 1

    def it_is_left_to_whoever_holds_it_by_now(self, use, tenants):
        ticket = send(use, tenants[0], 1)
        earlier = take(tenants[0], ticket.job_id, use).items
        in_mysql(use, "UPDATE job_items SET lease_until = '2000-01-01' WHERE tenant_id = :tenant", tenant=tenants[0])
        sweep(use, notify=lambda *_: None)
        take(tenants[0], ticket.job_id, use)
        Turn(tenants[0], use, lambda *_: None, IngestQueue.INGEST).leave(long=earlier)
        assert [row[:2] for row in _queues(use, tenants[0])] == [("ingest", "running")]


class DescribeASlowDocument:
    """A text of words that are all different, which takes the longest to analyse for its size."""

    @pytest.mark.apart
    def it_keeps_nobody_else_waiting_and_ends_as_its_own_failure(self, use, tenants):
        alone_s = _seconds_until_shown(use, tenants[2])
        words = " ".join(map("".join, islice(product("qzxjkvbpygfw", repeat=7), 500_000)))
        few = sharing(use, parser=Parser(memory_bytes=2**30, timeout_s=3.0, cutting_timeout_s=2.0))
        slow = send(few, tenants[0], 1, body=words)
        with _one_worker_of_each_queue(few):
            time.sleep(1.0)
            took_s = _seconds_until_shown(use, tenants[1], by_itself=True)
            was_slow = not _is_over(use, slow)
            while not _is_over(use, slow):
                time.sleep(0.05)
        few.parser.close()
        assert was_slow
        assert took_s < max(3.0, 3 * alone_s)  # of a host that has nothing else to do, and of this one
        job, items = job_of(use, slow), items_of(use, slow)
        assert (job.status, [item.code for item in items]) == ("failed", ["cutting_too_slow"])
        assert "cutting the document took more than 2 s" in (items[0].detail or "")

    @pytest.mark.apart
    @pytest.mark.parametrize(
        "kind",
        [pytest.param(kind, marks=[pytest.mark.thorough] if kind != "pages" else []) for kind in SLOW],
    )
    def it_delays_a_line_of_another_tenant_by_about_a_second(self, use, tenants, kind):
        """One worker of each queue has both tenants' work, whatever is slow about the document: its sentences, its
        structure, its cells, or the vectors of its many chunks."""
        alone_s = _seconds_until_shown(use, tenants[2])
        parser = Parser(memory_bytes=2**30, timeout_s=3.0, cutting_timeout_s=3.0)
        few = sharing(use, parser=parser, embedder=_SlowEmbedder(use.embedder))
        ticket = submit(few, tenants[0], [upload("slow", **SLOW[kind]())])
        shown_s: list[float] = []
        with _one_worker_of_each_queue(few):
            time.sleep(0.2)  # until it has begun
            while not _is_over(use, ticket):
                shown_s.append(_seconds_until_shown(use, tenants[1], by_itself=True))
        few.parser.close()
        crowd = min(2.0, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))
        assert shown_s
        assert max(shown_s) < alone_s + 1.2 * crowd
