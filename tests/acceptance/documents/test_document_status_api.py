"""The outcome of a document's latest upload: its status, the lists by status, and the count for quotas."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from chordwise import Chordwise
from chordwise.cli import run
from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import problem
from tests.support.clients.operating import eventually
from tests.support.corpora.documents import begun, document, finished, upload

KB = "kb"
MANY = 150
BROKEN = {"source": {"bytes": "JVBERi0xLjQKbm8=", "media_type": "application/pdf"}}  # no PDF after its first line


@pytest.fixture
def tenant(use) -> tuple[str, str]:
    tenant_id, key = make_tenant(use)
    return str(tenant_id), key


@pytest.fixture
def client(tenant) -> Iterator[httpx.Client]:
    with gateway(tenant[1]) as found:
        yield found


def listed(client: httpx.Client, **params: Any) -> dict[str, str]:
    """The documents of every page, with their status."""
    found: dict[str, str] = {}
    cursor: str | None = None
    while True:
        asked = {"limit": 200, **params, **({"cursor": cursor} if cursor else {})}
        page = client.get("/v1/documents", params=asked).raise_for_status().json()
        found |= {each["document_id"]: each["status"] for each in page["data"]}
        if (cursor := page["next_cursor"]) is None:
            return found


def used(client: httpx.Client) -> int:
    return int(client.get("/v1/quotas").json()["documents"]["used"])


def cancelled_load(client: httpx.Client, namespace: str = KB) -> dict[str, Any]:
    """A job of many documents, called back at once."""
    job_id = begun(client, namespace, MANY)
    assert client.post(f"/v1/jobs/{job_id}/cancel").status_code == 200
    return finished(client, job_id)


def limited(tenant_id: str, **quotas: int) -> None:
    with gateway(os.environ["CHORDWISE_ADMIN_KEY"]) as operator:
        assert operator.put(f"/v1/tenants/{tenant_id}/quotas", json=quotas).status_code == 200


class DescribeACancelledLoad:
    def it_is_neither_listed_nor_counted(self, client):
        job = cancelled_load(client)
        assert job["cancelled"] + job["succeeded"] == MANY
        assert job["cancelled"] > 0
        assert set(listed(client).values()) <= {"succeeded"}
        assert used(client) == len(listed(client)) == job["succeeded"]
        gone = listed(client, status="cancelled", namespace=KB)
        assert (len(gone), set(gone.values())) == (job["cancelled"], {"cancelled"})
        one = client.get(f"/v1/documents/{next(iter(gone))}", params={"namespace": KB, "wait": 20}).json()
        assert (one["status"], one["generation"], one["chunks"]) == ("cancelled", None, 0)

    @pytest.mark.thorough
    def it_is_ingested_when_retried(self, client):
        job = cancelled_load(client)
        assert client.post(f"/v1/jobs/{job['job_id']}/retry").status_code == 200
        assert listed(client, status="cancelled") == {}
        assert finished(client, job["job_id"])["succeeded"] == MANY
        assert (used(client), set(listed(client).values())) == (MANY, {"succeeded"})

    @pytest.mark.thorough
    def it_leaves_room_for_other_documents_and_is_not_retried_beyond_the_quota(self, tenant, client):
        job = cancelled_load(client)
        limited(tenant[0], documents=job["succeeded"] + 1)
        upload(client, KB, [document("新的", "泵每周加一次油。")])
        refused = client.post(f"/v1/jobs/{job['job_id']}/retry")
        assert problem(refused, 403, "quota_exceeded")["quota"]["name"] == "documents"
        assert len(listed(client, status="cancelled")) == job["cancelled"]

    def it_does_not_stand_in_the_way_of_the_same_documents(self, client):
        cancelled_load(client)
        gone = sorted(listed(client, status="cancelled"))
        for policy, names in (("skip", gone[:3]), ("error", gone[3:6])):
            again = upload(client, KB, [document(name, "The pump needs oil.") for name in names], on_conflict=policy)
            assert (again["succeeded"], again["failed"]) == (3, 0)
            assert {name: listed(client)[name] for name in names} == dict.fromkeys(names, "succeeded")


class DescribeAFailedUpload:
    def it_is_told_from_one_that_is_searchable(self, client):
        job = upload(client, KB, [document("good", "A pump."), {"document_id": "坏的", **BROKEN}])
        assert (job["succeeded"], job["failed"]) == (1, 1)
        assert listed(client) == {"good": "succeeded"}
        assert listed(client, status="failed") == {"坏的": "failed"}
        assert used(client) == 1

    def it_leaves_the_upload_before_searchable(self, client):
        upload(client, KB, [document("d", "A pump.")])
        upload(client, KB, [{"document_id": "d", **BROKEN}])
        one = client.get("/v1/documents/d", params={"namespace": KB}).json()
        assert (one["status"], one["generation"], one["chunks"]) == ("failed", 1, 1)
        assert listed(client) == listed(client, status="failed") == {"d": "failed"}
        assert used(client) == 1
        upload(client, KB, [document("d", "Another pump.")])
        assert listed(client) == {"d": "succeeded"}

    def it_succeeds_when_the_same_is_sent_again(self, client):
        for _ in range(2):  # the second is found to be what is there already
            upload(client, KB, [document("d", "A pump.")])
        assert listed(client, status="succeeded") == {"d": "succeeded"}


class DescribeAnUploadOnItsWay:
    def it_is_queued_while_its_job_is_paused(self, client):
        job_id = begun(client, KB, MANY)
        assert client.post(f"/v1/jobs/{job_id}/pause").status_code in (200, 202, 204)

        def is_still() -> bool:
            return listed(client, status="running") == {}

        eventually(is_still)
        waiting = listed(client, status="queued")
        assert waiting
        assert len(listed(client)) == used(client) == MANY
        assert client.post(f"/v1/jobs/{job_id}/cancel").status_code == 200

    def it_refuses_an_unknown_status(self, client):
        found = problem(client.get("/v1/documents?status=gone"), 422, "invalid_request")
        assert found["errors"][0]["pointer"] == "/status"


class DescribeTheClientAndTheCommands:
    def it_lists_by_status(self, tenant, client, monkeypatch, capsys):
        job = cancelled_load(client)
        with Chordwise(os.environ["CHORDWISE_URL"], tenant[1]) as own:
            found = own.documents(namespace=KB, status="cancelled", limit=None)
        assert {each.status for each in found} == {"cancelled"}
        assert len(found) == job["cancelled"]
        monkeypatch.setenv("CHORDWISE_API_KEY", tenant[1])
        assert run(["documents", "list", "--status", "cancelled", "--limit", "2", "--json"]) == 0
        assert [each["status"] for each in json.loads(capsys.readouterr().out)["data"]] == ["cancelled"] * 2
        assert run(["documents", "list", "--status", "cancelled", "--limit", "2"]) == 0
        assert capsys.readouterr().out.count("cancelled") == 2
        assert run(["documents", "list", "--status", "gone"]) == 2

    def it_sets_the_rate_of_requests_of_a_tenant(self, tenant, client, capsys):
        assert run(["tenants", "quotas", tenant[0], "--set", "requests_per_minute=60", "--set", "documents=7"]) == 0
        assert "requests_per_minute  60" in capsys.readouterr().out
        assert client.get("/v1/quotas").json()["documents"]["limit"] == 7
