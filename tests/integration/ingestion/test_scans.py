"""Scans through ingestion on real stores, before and after an installation learns to read them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from pipeline.ingestion import prepare
from pipeline.parsing.formats import PDF
from pipeline.records import Namespace, TenantId
from pipeline.resources import Resources
from tests.support.corpora.formats import pdf_with_picture
from tests.support.corpora.scans import ENGLISH, page, scan
from tests.support.corpora.uploads import upload
from tests.support.servers.tools_for_tests import tesseract
from tests.support.stacks.corner import items_of, job_of, submit
from tests.support.stacks.one_job import ingest_batch

pytestmark = [
    pytest.mark.own_databases,
    pytest.mark.skipif(tesseract() is None, reason="no tesseract with English and Chinese data"),
    pytest.mark.timeout(300),
]


@pytest.fixture
def reading(use: Resources, monkeypatch: pytest.MonkeyPatch) -> Iterator[Resources]:
    """The same stores, where pictures are read."""
    monkeypatch.setenv("PATH", f"{tesseract().parent}{os.pathsep}{os.environ['PATH']}")
    changes = {"ocr_languages": "eng", "ocr_page_timeout_s": 16.0}
    resources = Resources(use.settings.model_copy(update=changes))
    yield resources
    resources.close()


def _ingest(use: Resources, tenant: TenantId, namespace: Namespace, body: bytes, name: str = "scan"):
    ticket = submit(use, tenant, [upload(name, body, media_type=PDF, source_uri=f"{name}.pdf")], namespace)
    for _ in range(20):
        ingest_batch(tenant, ticket.job_id, use, notify=lambda *_: None)
        if job_of(use, ticket).finished_at is not None:
            break
    [item] = items_of(use, ticket)
    return item


def it_refuses_a_scan_until_it_is_read(use, reading, tenant, namespace):
    body = scan(page(ENGLISH))
    before = _ingest(use, tenant, namespace, body)
    assert before.code == "empty_document"
    assert "1 of 1 pages holds only pictures (1): install tesseract-ocr" in before.detail
    assert _ingest(reading, tenant, namespace, body).outcome == "created"
    assert _ingest(reading, tenant, namespace, body).outcome == "unchanged"


def it_warns_of_unread_pages_and_makes_the_document_anew_once_they_can_be_read(use, reading, tenant, namespace):
    body = pdf_with_picture("The seal of the cooling pump.")
    first = _ingest(use, tenant, namespace, body)
    assert (first.code, first.outcome) == (None, "created")
    assert first.pages_warning.startswith("1 of 3 pages holds only pictures (2)")
    assert _ingest(use, tenant, namespace, body).outcome == "unchanged"
    again = _ingest(reading, tenant, namespace, body)
    assert (again.outcome, again.pages_warning) == ("replaced", None)


def it_hands_the_rest_of_a_long_batch_to_the_next_one(use, tenant, namespace, monkeypatch):
    monkeypatch.setattr(prepare, "_LONGEST_BATCH_S", 0.0)
    uploads = [upload(f"d{number}", b"%d foxes" % number, media_type="text/plain") for number in range(3)]
    ticket = submit(use, tenant, uploads, namespace)
    ingest_batch(tenant, ticket.job_id, use, notify=lambda *_: None)
    assert [item.status for item in items_of(use, ticket)] == ["succeeded", "queued", "queued"]
    for _ in range(2):
        ingest_batch(tenant, ticket.job_id, use, notify=lambda *_: None)
    job = job_of(use, ticket)
    assert (job.succeeded, job.failed) == (3, 0)
    assert all(item.attempts == 1 for item in items_of(use, ticket))
