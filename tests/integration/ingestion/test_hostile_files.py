"""A batch in which every second document was made to harm: each of those is parked alone, and the others are found.

The fate of every such document by itself: tests/unit/sandbox/test_parsing_formats_sandbox.py. Here is one of each kind."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from pipeline.maintenance.verify import verify
from pipeline.parsing.formats import DOCX, PDF, PLAIN, XLSX
from pipeline.records import Namespace, TenantId
from pipeline.resources import Resources
from pipeline.settings import Settings
from tests.support.corpora.formats import docx, paragraph, pdf, xlsx
from tests.support.corpora.hostile import HOSTILE
from tests.support.corpora.uploads import upload
from tests.support.stacks.corner import items_of, job_of, submit
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


@pytest.mark.thorough
@pytest.mark.timeout(300)
def it_parks_each_hostile_document_and_shows_every_good_one(
    strict: Resources, tenant: TenantId, namespace: Namespace, settings: Settings
):
    uploads, expected = [], {}
    for number, hostile in enumerate(_FATES):
        body = hostile.make()
        if len(body) <= settings.max_document_bytes:  # the gateway takes no larger ones
            uploads.append(upload(hostile.name, body, media_type=hostile.media_type, source_uri=hostile.name))
            expected[hostile.name] = hostile.code
        suffix = list(_GOOD)[number % len(_GOOD)]
        name, (media_type, body) = f"{number}-{suffix}", _GOOD[suffix]
        uploads.append(upload(name, body, media_type=media_type, source_uri=name))
        expected[name] = None
    ticket = submit(strict, tenant, uploads, namespace)
    ends = time.monotonic() + 240
    while True:  # on a busy host a parser may not come up in time: then its document is due again in a second
        ingest_batch(tenant, ticket.job_id, strict, notify=lambda *_: None)
        job, items = job_of(strict, ticket), items_of(strict, ticket)
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
