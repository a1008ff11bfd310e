"""Long polls: the answer comes when there is something to tell, and not before."""

from __future__ import annotations

import time

from tests.support.clients.gateway_client import VALID, ended, problem, send


class DescribeWaitingForADocument:
    def it_is_told_when_it_is_searchable(self, client, namespace):
        send(client, namespace, VALID)
        found = client.get("/v1/documents/good", params={"namespace": namespace, "wait": 30})
        assert found.json()["generation"] == 1
        assert client.get("/v1/chunks", params={"namespace": namespace}).json()["data"]

    def it_is_told_at_once_when_there_is_nothing_to_wait_for(self, client, namespace):
        ended(client, send(client, namespace, VALID))
        began = time.monotonic()
        assert client.get("/v1/documents/good", params={"namespace": namespace, "wait": 30}).status_code == 200
        problem(
            client.get("/v1/documents/none", params={"namespace": namespace, "wait": 30}), 404, "document_not_found"
        )
        assert time.monotonic() - began < 15

    def it_waits_no_longer_than_it_was_asked_to(self, client, namespace):
        documents = [{"document_id": f"d{number}", "text": "A pump. " * 50} for number in range(200)]
        job = send(client, namespace, *documents).json()["job_id"]
        client.post(f"/v1/jobs/{job}/pause").raise_for_status()
        listed = client.get(f"/v1/jobs/{job}/items", params={"status": "queued", "limit": 200}).json()["data"]
        path = f"/v1/documents/{listed[-1]['document_id']}"
        began = time.monotonic()
        found = client.get(path, params={"namespace": namespace, "wait": 1})
        assert 1 <= time.monotonic() - began < 20
        assert found.json()["generation"] is None
        client.post(f"/v1/jobs/{job}/cancel").raise_for_status()

    def it_may_not_be_asked_to_wait_for_ever(self, client, namespace):
        problem(client.get("/v1/documents/good", params={"namespace": namespace, "wait": 61}), 422, "invalid_request")
