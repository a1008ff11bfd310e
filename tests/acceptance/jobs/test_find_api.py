"""One request that finds a document, the reason why it is missing, or a job; and jobs by namespace and time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from chordwise import Chordwise
from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import pointers, problem, send
from tests.support.corpora.documents import document, finished

BROKEN = {
    "document_id": "b-1",
    "title": "Wartung der 泵 100%",
    "source": {"bytes": "JVBERi0xLjQKbm8=", "media_type": "application/pdf"},
}


@pytest.fixture(scope="module")
def client(key):
    with gateway(key) as made:
        yield made


@pytest.fixture(scope="module")
def jobs(client) -> dict[str, str]:
    """A document that is searchable, one that failed, and one that was refused beside an accepted one."""
    whole = document("a-1", "The pump needs oil.") | {"title": "Wartung, Band 1"}
    refused = {"document_id": "wartung-3", "text": ""}
    sent = {"kb": [whole], "manuals": [BROKEN], "rest": [document("c-1", "Another."), refused]}
    found = {}
    for namespace, documents in sent.items():
        found[namespace] = finished(client, send(client, namespace, *documents).json()["job_id"])["job_id"]
    return found


def found(client: httpx.Client, text: str, **params: Any) -> list[tuple[str, str | None, str, bool, str | None]]:
    answer = client.get("/v1/find", params={"text": text, **params}).raise_for_status().json()
    assert not answer["truncated"]
    return [
        tuple(match[name] for name in ("kind", "document_id", "status", "searchable", "code"))
        for match in answer["data"]
    ]


class DescribeFinding:
    def it_names_failures_first_with_their_reasons(self, client, jobs):
        assert found(client, "WARTUNG") == [
            ("refused", "wartung-3", "failed", False, "empty_document"),
            ("document", "b-1", "failed", False, "malformed_document"),
            ("document", "a-1", "succeeded", True, None),
        ]
        [failed] = client.get("/v1/find", params={"text": "泵"}).json()["data"]
        assert (failed["title"], failed["job_id"]) == (BROKEN["title"], jobs["manuals"])
        assert "damaged" in failed["detail"]

    def it_takes_part_of_an_id_and_no_wildcards(self, client, jobs):
        assert found(client, "a-")[0][:2] == ("document", "a-1")
        assert [match[1] for match in found(client, "100%")] == ["b-1"]
        assert [match[1] for match in found(client, "%")] == ["b-1"]
        assert found(client, "w_rtung") == found(client, "\\") == found(client, "|") == []
        assert found(client, "wartung", namespace="kb") == [("document", "a-1", "succeeded", True, None)]

    def it_finds_a_job_by_the_beginning_of_its_id(self, client, jobs):
        [job] = client.get("/v1/find", params={"text": jobs["kb"][:13].upper()}).json()["data"]
        assert (job["kind"], job["job_id"], job["status"]) == ("job", jobs["kb"], "succeeded")

    def it_shows_the_document_again_once_a_later_upload_is_searchable(self, client, jobs):
        job = send(client, "late", {**BROKEN, "document_id": "d-1", "title": "Nachtrag"}).json()["job_id"]
        finished(client, job)
        assert found(client, "nachtrag") == [("document", "d-1", "failed", False, "malformed_document")]
        finished(
            client, send(client, "late", {**document("d-1", "Now it is text."), "title": "Nachtrag"}).json()["job_id"]
        )
        assert found(client, "nachtrag") == [("document", "d-1", "succeeded", True, None)]

    def it_shows_nothing_of_another_tenant(self, client, jobs, use):
        with gateway(make_tenant(use)[1]) as stranger:
            for text in ("wartung", jobs["kb"], jobs["kb"][:2]):
                assert stranger.get("/v1/find", params={"text": text}).json() == {"data": [], "truncated": False}

    def it_refuses_a_text_that_is_none(self, client):
        for text in ("", "x" * 256):
            assert pointers(problem(client.get("/v1/find", params={"text": text}), 422, "invalid_request")) == ["/text"]

    def it_is_known_to_the_client(self, client, jobs, key):
        with Chordwise(api_key=key) as chordwise:
            assert [match.document_id for match in chordwise.find("wartung, band")] == ["a-1"]
            assert [job.job_id for job in chordwise.jobs(namespace="manuals")] == [jobs["manuals"]]


class DescribeJobsByNamespaceAndTime:
    def it_lists_those_that_fit_every_filter(self, client, jobs):
        def listed(**params: Any) -> list[str]:
            return [job["job_id"] for job in client.get("/v1/jobs", params=params).raise_for_status().json()["data"]]

        soon, before = (datetime.now(UTC) + timedelta(hours=hours) for hours in (1, -1))
        assert (
            listed(namespace="kb")
            == listed(namespace="kb", since=before.isoformat(), status="succeeded")
            == [jobs["kb"]]
        )
        assert listed(namespace="kb", status="failed") == listed(since=soon.isoformat()) == []
        assert listed(until=before.isoformat()) == listed(namespace="nothing-here") == []

    def it_refuses_a_span_that_ends_before_it_begins(self, client):
        params = {"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"}
        assert pointers(problem(client.get("/v1/jobs", params=params), 422, "invalid_request")) == ["/until"]
