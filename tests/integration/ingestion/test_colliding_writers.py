"""Documents whose transactions the server rolls back in favour of another writer."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from ipaddress import ip_network
from typing import Any

import pytest
from sqlalchemy import text

from chordwise.contract.job import Item
from pipeline.ingestion.accept import AcceptedJob, Batch, accept
from pipeline.ingestion.run import ingest_claims, take
from pipeline.models.ports import Embedder, Matrix
from pipeline.records import OCTETS, JobId, Namespace
from pipeline.resources import Resources
from tests.conftest import make_tenant
from tests.support.clients.operating import eventually
from tests.support.corpora.uploads import upload
from tests.support.servers.web_server import WebServer, page, slow
from tests.support.stacks.connections import sharing
from tests.support.stacks.corner import Corner, items_of, submit

_ITEM = "SELECT 1 FROM job_items WHERE tenant_id = :tenant AND job_id = :job FOR UPDATE"
_DOCUMENT = text("SELECT 1 FROM documents WHERE tenant_id = :tenant AND document_id = 'a' FOR UPDATE")
# More changed rows than the other transaction has: the server rolls back the smaller one.
_CHANGE = text("UPDATE chunks SET ordinal = ordinal + 1000 WHERE tenant_id = :tenant AND document_id = 'others'")


@pytest.fixture
def filled(use_alone: Resources, namespace: Namespace) -> Corner:
    """A corner with a document of many chunks, of which no other worker knows."""
    corner = Corner(use_alone, make_tenant(use_alone)[0], namespace)
    corner.ingest(upload("others", "\n\n".join(f"{number}. " + "段落 paragraph " * 60 for number in range(60))))
    return corner


def collide(corner: Corner, job: str, work: Callable[[Callable[[], object]], object]) -> None:
    """Have the work lock its document for another transaction, wait until it holds its item and waits for the document,
    then ask for the item: the server finds a deadlock and rolls back the work's transaction."""
    values = {"tenant": corner.tenant, "job": job}

    def is_held() -> bool:
        return not corner.execute(f"{_ITEM} SKIP LOCKED", job=job)

    def stays_held() -> bool:
        return is_held() and (time.sleep(0.3) or is_held())

    def lock() -> None:
        for statement in (_CHANGE, _DOCUMENT):
            other.execute(statement, values)

    with ThreadPoolExecutor(1) as pool, corner.use.mysql.connect() as other:
        working = pool.submit(work, lock)
        eventually(stays_held, within_s=10)
        other.execute(text(_ITEM), values)
        other.rollback()
        working.result(timeout=20)


def only_item(corner: Corner, ticket: AcceptedJob) -> Item:
    [item] = items_of(corner.use, ticket)
    return item


class _Observed:
    """An embedder that calls a function with the texts first."""

    def __init__(self, embedder: Embedder, before: Callable[[Sequence[str]], object]) -> None:
        self._embedder, self._before = embedder, before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)

    def embed(self, texts: Sequence[str], *, timeout_s: float | None = None) -> Matrix:
        self._before(texts)
        return self._embedder.embed(texts, timeout_s=timeout_s)


class DescribeADeadlock:
    def it_costs_a_document_no_attempt(self, filled: Corner):
        filled.ingest(upload("a", "bolt 螺栓"))
        ticket = filled.accept(upload("a", "nut 螺母"))
        claims = take(filled.tenant, ticket.job_id, filled.use)  # before another looks whether its item is locked
        assert claims is not None

        def work(lock: Callable[[], object]) -> None:
            lock()
            ingest_claims(filled.tenant, claims.items, filled.use, notify=lambda *_: None)

        collide(filled, ticket.job_id, work)
        item = only_item(filled, ticket)
        assert (item.status, item.outcome, item.attempts) == ("succeeded", "replaced", 1)
        assert filled.shown()["a"] == ["nut 螺母"]

    def it_does_not_embed_a_document_again_that_was_about_to_be_published(self, filled: Corner):
        filled.ingest(upload("a", "bolt 螺栓"))
        ticket = filled.accept(upload("a", "nut 螺母"))
        claims = take(filled.tenant, ticket.job_id, filled.use)
        assert claims is not None
        embedded: list[str] = []

        def work(lock: Callable[[], object]) -> None:
            use = sharing(
                filled.use, embedder=_Observed(filled.use.embedder, lambda texts: (embedded.extend(texts), lock()))
            )
            ingest_claims(filled.tenant, claims.items, use, notify=lambda *_: None)

        collide(filled, ticket.job_id, work)
        item = only_item(filled, ticket)
        assert (item.status, item.outcome, item.attempts) == ("succeeded", "replaced", 1)
        assert filled.shown()["a"] == ["nut 螺母"]
        assert embedded == ["nut 螺母"]

    def it_does_not_delay_a_document_that_could_not_be_fetched(self, filled: Corner):
        filled.ingest(upload("a", "bolt 螺栓"))
        allowed = (ip_network("127.0.0.0/8"),)
        use = sharing(filled.use, parser=filled.use.parser, fetch_allow_networks=allowed)
        with WebServer() as web:
            web.pages["/gone"] = slow(1.0, page(b"", status=404))
            gone = upload("a", media_type=OCTETS, source_uri=web.url("/gone"), to_fetch=True)
            ticket = submit(use, filled.tenant, [gone], filled.namespace)
            filled.work(ticket, use)

            def work(lock: Callable[[], object]) -> None:
                lock()
                use.fetches.wait(15)

            collide(filled, ticket.job_id, work)
        item = only_item(filled, ticket)
        assert (item.status, item.code, item.attempts) == ("failed", "fetch_failed", 1)


class DescribeARequestThatTwoGatewaysCarryOut:
    """A gateway that stood still lost the lease of an idempotency key, and goes on."""

    def it_is_accepted_once_and_answered_twice(self, filled: Corner):
        batch = Batch(
            tenant_id=filled.tenant,
            namespace=filled.namespace,
            request_id="r",
            entries=[upload("a", "nut 螺母"), upload("b", "bolt 螺栓")],
            job_id=JobId(str(uuid.uuid4())),
        )
        second: list[Future[AcceptedJob]] = []

        def meanwhile(*_: object) -> None:
            second.append(pool.submit(accept, batch, filled.use, notify=lambda _: None))
            time.sleep(0.5)  # until it waits for the first one's rows

        with ThreadPoolExecutor(1) as pool:
            first = accept(batch, filled.use, notify=lambda _: None, together_with=meanwhile)
            again = second[0].result(timeout=20)
        assert (first.job_id, first.total, first.due) == (again.job_id, again.total, 2)
        assert again.due == 0
        filled.work(first)
        assert [(item.document_id, item.status) for item in items_of(filled.use, first)] == [
            ("a", "succeeded"),
            ("b", "succeeded"),
        ]
        assert filled.shown()["a"] == ["nut 螺母"]
