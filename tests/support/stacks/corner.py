"""One tenant's namespace on real stores, filled and asked in this process, without Celery."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row

from chordwise.contract.job import Item, Job, JobError
from pipeline.administration.drop_replaced import drop_retired
from pipeline.answer.result import Answer
from pipeline.channels.channel import Channel
from pipeline.database.unit_of_work import unit_of_work
from pipeline.ingestion.accept import AcceptedJob, Batch, accept
from pipeline.jobs.job_view_store import JobViews
from pipeline.maintenance.sweep import sweep
from pipeline.maintenance.verify import verify
from pipeline.query.request import Query
from pipeline.records import ChannelName, Filters, Namespace, QueryId, TenantId, Upload
from pipeline.resources import Resources
from pipeline.retrieval.build_plan import plan_of
from pipeline.retrieval.compose import render
from pipeline.retrieval.make_channels import make_channels
from tests.support.corpora.queries import query_of
from tests.support.corpora.uploads import upload
from tests.support.stacks.connections import in_mysql
from tests.support.stacks.one_job import ingest_batch
from tests.support.stacks.one_query import ask_in_process


def submit(
    use: Resources, tenant: TenantId, entries: Sequence[Upload | JobError], namespace: str = "kb", **given: Any
) -> AcceptedJob:
    """Accept documents as one job and notify nobody: the test works on it itself."""
    batch = Batch(tenant_id=tenant, namespace=Namespace(namespace), request_id="r", entries=entries, **given)
    return accept(batch, use, notify=lambda ticket: None)


def work_off(use: Resources, ticket: AcceptedJob) -> None:
    """Ingest all of a job that is due."""
    while ingest_batch(ticket.tenant_id, ticket.job_id, use, notify=lambda *_: None):
        pass


def job_of(use: Resources, ticket: AcceptedJob) -> Job:
    """Return a job as its tenant sees it."""
    with unit_of_work(use.mysql) as work:
        found = JobViews(work.connection, ticket.tenant_id).one(ticket.job_id)
    assert found is not None
    return found


def items_of(use: Resources, ticket: AcceptedJob) -> list[Item]:
    """Return the items of a job in order."""
    with unit_of_work(use.mysql) as work:
        return JobViews(work.connection, ticket.tenant_id).items(ticket.job_id, status=None, after=-1, limit=1000)


@dataclass(eq=False)
class Corner:
    """One tenant's namespace and the few steps tests take in it."""

    use: Resources
    tenant: TenantId
    namespace: Namespace

    def accept(self, *entries: Upload | JobError, **given: Any) -> AcceptedJob:
        return submit(self.use, self.tenant, entries, self.namespace, **given)

    def work(self, ticket: AcceptedJob, use: Resources | None = None) -> None:
        work_off(use or self.use, ticket)

    def ingest(self, *entries: Upload) -> Job:
        ticket = self.accept(*entries)
        self.work(ticket)
        return self.job(ticket)

    def fill(self, texts: Mapping[str, str], fields: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        """Ingest plain texts by document id, with the fields that some of them have."""
        self.ingest(*(upload(name, body, **(fields or {}).get(name, {})) for name, body in texts.items()))

    def job(self, ticket: AcceptedJob) -> Job:
        return job_of(self.use, ticket)

    def execute(self, statement: str, **values: Any) -> Sequence[Row[Any]]:
        """Run a statement in MySQL, which may name the tenant, and return its rows."""
        return in_mysql(self.use, statement, tenant=self.tenant, **values)

    def make_due(self) -> None:
        """Let what waits for its next attempt, or for a lease to run out, be due now."""
        for column, state in (("next_attempt_at", "queued"), ("lease_until", "running")):
            self.execute(
                f"UPDATE job_items SET {column} = '2000-01-01' WHERE tenant_id = :tenant AND state = :state",
                state=state,
            )
        sweep(self.use, notify=lambda *_: None)

    def shown(self) -> dict[str, list[str]]:
        """The texts searches may see, by document."""
        texts: dict[str, list[str]] = {}
        for document_id, chunk in self.execute(
            "SELECT c.document_id, c.text FROM chunks c JOIN documents d ON d.tenant_id = c.tenant_id"
            " AND d.namespace = c.namespace AND d.document_id = c.document_id"
            " AND d.published_generation = c.generation WHERE c.tenant_id = :tenant ORDER BY c.ordinal"
        ):
            texts.setdefault(document_id, []).append(chunk)
        return texts

    def rows(self, table: str) -> int:
        return int(self.execute(f"SELECT COUNT(*) FROM {table} WHERE tenant_id = :tenant")[0][0])

    def assert_clean(self) -> None:
        """Both stores agree, nothing is left of earlier generations, and namespaces have the sizes of their shown chunks."""
        self._assert_aligned()
        self.execute("UPDATE retired_generations SET due_at = '2000-01-01' WHERE tenant_id = :tenant")
        drop_retired(self.tenant, self.use)
        self._assert_aligned()
        rows, shown = self.rows("chunks"), sum(len(texts) for texts in self.shown().values())
        assert rows == shown, f"{rows} rows of chunks, {shown} of them shown"
        shown_terms = self.execute("SELECT terms FROM chunks WHERE tenant_id = :tenant AND enabled = 1")
        sizes = self.execute("SELECT chunk_count, term_count FROM namespaces WHERE tenant_id = :tenant")
        assert sum(row.chunk_count for row in sizes) == len(shown_terms)
        assert sum(row.term_count for row in sizes) == sum(len(row.terms.split()) for row in shown_terms)

    def _assert_aligned(self) -> None:
        report = verify(self.tenant, None, self.use, repair=False)
        assert (report.missing, report.orphaned, report.stale) == (0, 0, 0)

    def query(self, text: str, *, filters: Filters | None = None, deadline_s: float = 20.0, **asked: Any) -> Query:
        """A query with the settings' plan and the given options."""
        return query_of(
            text,
            query_id=QueryId(str(uuid.uuid4())),
            tenant_id=self.tenant,
            namespaces=(self.namespace,),
            filters=filters or Filters(),
            plan=plan_of(self.use.settings, {}, asked),
            deadline_s=deadline_s,
            trace=True,
        )

    def ask(self, query: Query, channels: Mapping[ChannelName, Channel] | None = None) -> Answer:
        """The answer, of the real channels unless others are given."""
        return ask_in_process(query, self.use, make_channels(self.use) if channels is None else channels)


def documents(answer: Answer) -> list[str]:
    """The documents of an answer in order, as often as they occur."""
    return [chunk.document_id for chunk in answer.chunks]


def timeless(answer: Answer | bytes) -> str:
    """An answer as JSON without its timings."""
    found = json.loads(answer if isinstance(answer, bytes) else render(answer))
    found["stats"].pop("latency_ms")
    return json.dumps(found, ensure_ascii=False)
