"""A batch in which every second document was made to harm: each of those is parked alone, and the others are found.

What becomes of every such document by itself: tests/unit/sandbox/test_parsing_formats_sandbox.py. Here is one of each kind."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from pipeline.database.unit_of_work import unit_of_work
from pipeline.ingestion.accept import Batch, accept
from pipeline.jobs.job_view_store import ItemView, JobView, JobViews
from pipeline.maintenance.verify import verify
from pipeline.parsing import DOCX, PDF, PLAIN, XLSX
from pipeline.records import DocumentFields, DocumentId, JobId, Namespace, TenantId, Upload
from pipeline.resources import Resources
from pipeline.settings import Settings
from tests.support.corpora.formats import docx, paragraph, pdf, xlsx
from tests.support.corpora.hostile import HOSTILE
from tests.support.stacks.one_job import ingest_batch

_FATES = list({hostile.code: hostile for hostile in HOSTILE}.values())
_GOOD = {
    "good.docx": (DOCX, docx(paragraph("A red fox"))),
    "good.pdf": (PDF, pdf("A grey owl")),
    "good.txt": (PLAIN, b"A blue whale"),
    "good.xlsx": (XLSX, xlsx({"Animals": [["name", "colour"], ["swan", "white"]]})),
}


@pytest.fixture
def strict(settings: Settings) -> Iterator[Resources]:
    resources = Resources(settings.model_copy(update={"parser_timeout_s": 4.0}))
    yield resources
    resources.close()


def _upload(name: str, media_type: str, body: bytes) -> Upload:
    return Upload(
        document_id=DocumentId(name), fields=DocumentFields(), body=body, media_type=media_type, source_uri=name
    )


def _job(tenant: TenantId, job_id: JobId, use: Resources) -> tuple[JobView, list[ItemView]]:
    with unit_of_work(use.mysql) as work:
        views = JobViews(work.connection, tenant)
        job = views.one(job_id)
        assert job is not None
        return job, list(views.items(job_id, status=None, after=-1, limit=1000))


@pytest.mark.timeout(300)
def it_parks_each_hostile_document_and_shows_every_good_one(
    strict: Resources, tenant: TenantId, namespace: Namespace, settings: Settings
):
    uploads, expected = [], {}
    for number, hostile in enumerate(_FATES):
        body = hostile.make()
        if len(body) <= settings.max_document_bytes:  # the gateway takes no larger ones
            uploads.append(_upload(hostile.name, hostile.media_type, body))
            expected[hostile.name] = hostile.code
        suffix = list(_GOOD)[number % len(_GOOD)]
        uploads.append(_upload(f"{number}-{suffix}", *_GOOD[suffix]))
        expected[f"{number}-{suffix}"] = None
    batch = Batch(tenant_id=tenant, namespace=namespace, request_id="r", entries=uploads)
    ticket = accept(batch, strict, ring=lambda _: None)
    ends = time.monotonic() + 240
    while True:  # on a busy host a parser may not come up in time: then its document is due again in a second
        ingest_batch(tenant, ticket.job_id, strict, ring=lambda *_: None)
        job, items = _job(tenant, ticket.job_id, strict)
        if job.finished_at is not None or time.monotonic() > ends:
            break
        time.sleep(0.05)
    assert {item.document_id: item.code for item in items} == expected
    assert job.finished_at is not None
    assert (job.succeeded, job.failed) == (
        sum(code is None for code in expected.values()),
        sum(code is not None for code in expected.values()),
    )
    report = verify(tenant, None, strict, repair=False)
    assert (report.missing, report.orphaned, report.stale) == (0, 0, 0)
