"""Accept many queries at once as a job, whose items are answered one slice after another."""

import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from chordwise.contract.job import JobError
from pipeline.database.unit_of_work import retry_conflicts, unit_of_work
from pipeline.errors import QuotaExceeded
from pipeline.ingestion.accept import AcceptedJob, quotas
from pipeline.jobs.ledger_store import Ledger, NewItem
from pipeline.jobs.question_store import KEPT, Questions, repeats
from pipeline.query.compression import compressed
from pipeline.query.query_store import QUERY
from pipeline.query.request import Query
from pipeline.records import IngestQueue, JobId, Namespace, Priority, TenantId
from pipeline.resources import Resources
from pipeline.retrieval.reuse_answer import NOT_IN_KEY
from pipeline.tenants.audit_store import Audit

MOST_KEPT_BYTES: Final = 2 * 1024**3  # of a tenant's queries in batches and their answers, compressed
SEVERAL: Final = Namespace("*")  # as a job's namespace, where its queries name different ones


@retry_conflicts()
def submit_batch(
    tenant_id: TenantId,
    queries: Sequence[tuple[str | None, Query | JobError]],
    use: Resources,
    *,
    owner: str,
    request_id: str,
    notify: Callable[[AcceptedJob, IngestQueue], None],
    job_id: JobId | None = None,
) -> AcceptedJob:
    """Write the job with its queries, each with the id that its sender gave it, in one transaction, then notify the
    workers. ``owner``: tells its sender from other callers. ``job_id``: of a repeatable request. Raises QuotaExceeded
    or StoreUnavailable; then nothing was accepted."""
    items, bodies = _items(queries)
    due = len(bodies)
    with unit_of_work(use.mysql) as work:
        ledger, questions = Ledger(work.connection, tenant_id), Questions(work.connection, tenant_id)
        if job_id is not None and ledger.total(job_id) is not None:
            return AcceptedJob(tenant_id=tenant_id, job_id=job_id, request_id=request_id, total=len(items), due=0)
        job_id = job_id or JobId(str(uuid.uuid4()))
        _require_room(questions.kept_bytes(), sum(map(len, bodies.values())))
        quotas(work.connection, tenant_id, use).check(arriving=due)
        ledger.open(job_id, _namespace(queries), request_id, items, priority=Priority.BULK, queue=IngestQueue.BATCH)
        questions.put(job_id, bodies)
        questions.put_owner(job_id, owner, (query.reads_as for _, query in queries if isinstance(query, Query)))
        named = {name for _, query in queries if isinstance(query, Query) for name in query.namespaces}
        Audit(work.connection, tenant_id).wrote("query_batch", namespaces=sorted(named), ids=[job_id], count=due)
        accepted = AcceptedJob(tenant_id=tenant_id, job_id=job_id, request_id=request_id, total=len(items), due=due)
        work.after_commit(lambda: notify(accepted, IngestQueue.BATCH))
    return accepted


def _items(queries: Sequence[tuple[str | None, Query | JobError]]) -> tuple[list[NewItem], Mapping[int, bytes]]:
    """Return the items of the job, and what is stored for those that wait: the query, or a reference to the first one
    that differs from it in nothing that an answer depends on."""
    items: list[NewItem] = []
    bodies: dict[int, bytes] = {}
    first: dict[bytes, int] = {}
    for ordinal, (own_id, query) in enumerate(queries):
        if isinstance(query, JobError):
            items.append(
                NewItem(
                    ordinal=ordinal,
                    document_id=None,
                    requested_id=own_id,
                    outcome="refused",
                    error_code=query.code,
                    error_detail=query.detail,
                    error_pointer=query.pointer,
                )
            )
            continue
        digest = hashlib.sha256(QUERY.dump_json(query, exclude=_NOT_COMPARED)).digest()
        earlier = first.setdefault(digest, ordinal)
        bodies[ordinal] = compressed(QUERY.dump_json(query)) if earlier == ordinal else repeats(earlier)
        items.append(NewItem(ordinal=ordinal, document_id=None, requested_id=own_id, body_bytes=len(bodies[ordinal])))
    return items, bodies


_NOT_COMPARED: Final = set(NOT_IN_KEY - {"principals"})  # by which the filter is set that a single query has already


def _namespace(queries: Sequence[tuple[str | None, Query | JobError]]) -> Namespace:
    """Return the namespace that all queries name, or SEVERAL."""
    named = {query.namespaces for _, query in queries if isinstance(query, Query)}
    only = next(iter(named)) if len(named) == 1 else ()
    return only[0] if len(only) == 1 else SEVERAL


def _require_room(kept: int, arriving: int) -> None:
    if kept + arriving > MOST_KEPT_BYTES:
        raise QuotaExceeded(
            f"Batches of the last {KEPT.days} days keep {kept / 2**20:.0f} MiB of answers, of {MOST_KEPT_BYTES // 2**20} MiB"
            " that a tenant may have; ask again once older ones have expired.",
            code="too_many_answers",
            quota={"name": "batch_answer_bytes", "limit": MOST_KEPT_BYTES, "used": kept},
            retry_after_s=3600.0,
        )
