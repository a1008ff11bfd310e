"""Computations on real stores: large bodies, comparisons in steps, books that are sent twice."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson
import pytest

from chordwise.contract.tenant import AuditActor
from pipeline.administration.compute import carry_out, drop_expired
from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import EmptyDocument
from pipeline.ingestion.import_examples import import_book
from pipeline.ingestion.preview import preview_body
from pipeline.jobs.computation import (
    MOST_IN_REDIS,
    BookForm,
    Computation,
    ComputationId,
    ComputationKind,
    Done,
    StepResult,
)
from pipeline.jobs.job_view_store import JobViews
from pipeline.maintenance.verify import verify, verify_step
from pipeline.records import Namespace, TenantId
from pipeline.resources import Resources
from pipeline.tenants.audit_store import Audit
from tests.support.corpora.uploads import upload
from tests.support.stacks.connections import in_mysql, in_postgres
from tests.support.stacks.corner import Corner

LARGE = "".join(f"第{number}句：茶 has {number} leaves.\n" for number in range(90_000)).encode()
LI = AuditActor(key_id="k1", key_name="Li", scopes=("write",))


def asked(tenant: TenantId, kind: ComputationKind, parameters: Any, body: bytes = b"") -> Computation:
    made = ComputationId(str(uuid.uuid4()))
    return Computation(tenant_id=tenant, computation_id=made, kind=kind, asked=parameters, body=body, actor=LI)


def carried_out(computation: Computation, use: Resources, performer: Callable[..., StepResult]) -> tuple[Any, int]:
    """Carry out a computation, delivering every message twice. Return the outcome and the number of steps."""
    computations = use.computations(computation.tenant_id)
    computations.open(computation, begin_s=20)
    waiting = [0]
    steps = 0
    while waiting:
        step = waiting.pop()
        steps += 1
        for _ in range(2):
            carry_out(
                computation.tenant_id,
                computation.computation_id,
                step,
                computation.kind,
                use,
                {computation.kind: partial(performer, use=use)},
                send_next=lambda done: waiting.append(done.step + 1),
            )
    found = computations.progress(computation.computation_id)
    assert found is not None
    computations.drop(computation)
    return found.outcome, steps


def bodies(tenant: TenantId, use: Resources) -> int:
    return int(in_mysql(use, "SELECT COUNT(*) FROM computation_bodies WHERE tenant_id = :tenant", tenant=tenant)[0][0])


class DescribeALargeBody:
    def it_reaches_the_worker_whole_and_is_gone_afterwards(self, use, tenant):
        assert len(LARGE) > MOST_IN_REDIS
        seen: list[bytes] = []

        def perform(computation: Computation, use: Resources) -> Done:
            seen.append(computation.body)
            return Done(body=b"")

        computation = asked(tenant, ComputationKind.BOOK, {}, LARGE)
        carried_out(computation, use, perform)
        assert seen == [LARGE]
        assert bodies(tenant, use) == 0

    def it_is_not_in_redis(self, use, tenant):
        computation = asked(tenant, ComputationKind.BOOK, {}, LARGE)
        computations = use.computations(tenant)
        computations.open(computation, begin_s=20)
        assert int(use.redis.memory_usage(computations.wake_name(computation.computation_id))) < 10_000
        computations.drop(computation)

    def it_goes_by_itself_when_its_gateway_died(self, use, tenant):
        use.computations(tenant).open(asked(tenant, ComputationKind.BOOK, {}, LARGE), begin_s=20)
        there = bodies(tenant, use)
        drop_expired(tenant, use)
        in_mysql(
            use, "UPDATE computation_bodies SET expires_at = '2020-01-01' WHERE tenant_id = :tenant", tenant=tenant
        )
        assert bodies(tenant, use) == there > 1
        drop_expired(tenant, use)
        assert bodies(tenant, use) == 0


class DescribeAComparisonInSteps:
    @pytest.fixture
    def corner(self, use_alone, tenant) -> Corner:
        """Return three namespaces with one vector missing in each."""
        for name in ("one", "two", "三"):
            corner = Corner(use_alone, tenant, Namespace(name))
            corner.ingest(*(upload(f"d{number}", f"Tea number {number}. 绿茶。") for number in range(3)))
        statement = "DELETE FROM chunk_embeddings WHERE tenant_id = :tenant AND document_id = 'd1'"
        in_postgres(use_alone, statement, tenant=tenant)
        return corner

    def it_says_the_same_as_one_in_one_piece(self, corner):
        whole = verify(corner.tenant, None, corner.use, repair=False)
        asking = asked(corner.tenant, ComputationKind.VERIFY, {"namespaces": None, "repair": False})
        found, steps = carried_out(asking, corner.use, partial(verify_step, step_s=0))
        assert orjson.loads(found.body) == orjson.loads(orjson.dumps(whole))
        assert (whole.missing, steps > 5) == (3, True)

    def it_repairs_once_and_notes_who_asked(self, corner):
        asking = asked(corner.tenant, ComputationKind.VERIFY, {"namespaces": ["one", "三"], "repair": True})
        found, _ = carried_out(asking, corner.use, partial(verify_step, step_s=0))
        assert orjson.loads(found.body)["repaired"] >= 2
        again = verify(corner.tenant, None, corner.use, repair=False)
        assert [(each.namespace, each.missing) for each in again.namespaces] == [("one", 0), ("two", 1), ("三", 0)]
        with unit_of_work(corner.use.mysql) as work:
            rows = Audit(work.connection, corner.tenant).page(action="repair", before=None, limit=9)
        assert [(row.actor.key_name, row.namespaces) for row in rows] == [("Li", ("one", "三"))]


class DescribeABook:
    def it_becomes_one_job_however_often_its_message_comes(self, use, tenant):
        body = orjson.dumps({"qa_examples": [{"user_input": "头晕怎么办？", "agent_response": "请先坐下休息。"}]})
        parameters = {
            "form": BookForm.JSON_FILE,
            "name": "book.json",
            "category": None,
            "namespace": "kb",
            "strict": False,
        }
        parameters |= {"on_conflict": "replace", "dry_run": False, "job_id": str(uuid.uuid4())}
        for _ in range(2):  # as two computations too: somebody sent the same request again
            performer = partial(import_book, notify=lambda _: None)
            found, _ = carried_out(asked(tenant, ComputationKind.BOOK, parameters, body), use, performer)
            assert found.about == {"job_id": parameters["job_id"], "refused": None}
        with unit_of_work(use.mysql) as work:
            jobs = JobViews(work.connection, tenant).newest(before=None, limit=9)
        assert [job.total for job in jobs] == [1]


class DescribeAPreview:
    def it_tells_what_would_park_the_document(self, use, tenant):
        parameters = {"media_type": "text/markdown", "filename": None, "title": None, "chunking": {}}
        found, _ = carried_out(asked(tenant, ComputationKind.PREVIEW, parameters, b"\xef\xbb\xbf"), use, preview_body)
        assert isinstance(found.error, EmptyDocument)
