"""A POST that is sent again is answered again and not done again."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from sqlalchemy import text

from pipeline.database.unit_of_work import unit_of_work
from pipeline.resources import Resources
from pipeline.tenants.tenant_store import Tenants
from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import VALID, ended, problem, send


@pytest.fixture
def key() -> str:
    return f"k-{uuid.uuid4()}"


def submit(client: httpx.Client, key: str, body: object, path: str = "/v1/documents", **headers: str) -> httpx.Response:
    content = json.dumps(body).encode()
    return client.post(
        path, content=content, headers={"Content-Type": "application/json", "Idempotency-Key": key} | headers
    )


def jobs(client: httpx.Client) -> list[str]:
    return [job["job_id"] for job in client.get("/v1/jobs").json()["data"]]


class DescribeTheSameRequestAgain:
    def it_gets_the_same_answer_and_makes_nothing(self, client, namespace, key):
        body = {"namespace": namespace, "documents": [VALID]}
        first = submit(client, key, body)
        again = submit(client, key, body)
        assert first.status_code == again.status_code == 202
        assert first.content == again.content
        assert first.headers["location"] == again.headers["location"]
        assert "idempotency-replayed" not in first.headers
        assert again.headers["idempotency-replayed"] == "true"
        assert first.headers["x-request-id"] != again.headers["x-request-id"]
        assert jobs(client) == [first.json()["job_id"]]

    def it_may_quote_its_key(self, client, namespace, key):
        body = {"namespace": namespace, "documents": [VALID]}
        assert submit(client, f'"{key}"', body).content == submit(client, key, body).content
        assert len(jobs(client)) == 1

    def it_is_refused_if_its_body_is_another(self, client, namespace, key):
        submit(client, key, {"namespace": namespace, "documents": [VALID]})
        other = submit(client, key, {"namespace": namespace, "documents": [VALID | {"text": "Another."}]})
        problem(other, 422, "idempotency_key_reused")
        assert len(jobs(client)) == 1

    def it_is_another_request_with_another_key_or_tenant_or_route(self, client, use, namespace, key):
        body = {"namespace": namespace, "documents": [VALID]}
        submit(client, key, body)
        submit(client, key + "x", body)
        submit(client, key, body, path="/v1/verify")
        assert len(jobs(client)) == 2
        _, stranger = make_tenant(use)
        with gateway(stranger) as other:
            found = submit(other, key, body)
            assert "idempotency-replayed" not in found.headers
            assert len(jobs(other)) == 1

    def it_gets_a_refusal_again_that_will_always_be_one(self, client, namespace, key):
        body = {"namespace": namespace, "documents": [{"text": 5}]}
        first, again = submit(client, key, body), submit(client, key, body)
        assert (again.status_code, again.json()["code"]) == (422, "invalid_document")
        assert first.content == again.content  # also the id of the request that was refused
        assert again.headers["idempotency-replayed"] == "true"

    def it_is_done_after_a_refusal_that_may_pass(self, client, namespace, key):
        body = {"query_text": "pump", "namespaces": [namespace]}
        problem(submit(client, key, body, path="/v1/rag/query"), 404, "namespace_not_found")
        ended(client, send(client, namespace, VALID))
        assert submit(client, key, body, path="/v1/rag/query").json()["status"] == "succeeded"

    def it_needs_the_scope_that_the_first_one_needed(self, use, namespace, key):
        tenant_id, writing = make_tenant(use)
        with unit_of_work(use.mysql) as work:
            reading = Tenants(work.connection, tenant_id).issue_key("r", ("read",))
            rotated = Tenants(work.connection, tenant_id).issue_key("w", ("read", "write"))
        body = {"namespace": namespace, "documents": [VALID]}
        with gateway(writing) as writer, gateway(reading) as reader, gateway(rotated) as next_key:
            first = submit(writer, key, body)
            problem(submit(reader, key, body), 403, "insufficient_scope")
            assert submit(next_key, key, body).content == first.content

    @pytest.mark.parametrize("value", ["", '""', "a" * 256, "tab\there", 'half"'])
    def it_needs_a_key_that_is_one(self, client, namespace, value):
        found = submit(client, value, {"namespace": namespace, "documents": [VALID]})
        problem(found, 400, "invalid_idempotency_key")
        assert jobs(client) == []


class DescribeFilesSentAgain:
    def upload(self, client: httpx.Client, namespace: str, key: str, text: bytes, boundary: str) -> httpx.Response:
        content_type = f"multipart/form-data; boundary={boundary}"
        headers = {"Idempotency-Key": key, "Content-Type": content_type}
        return client.post(
            "/v1/files", files=[("file", ("a.txt", text))], data={"namespace": namespace}, headers=headers
        )

    def it_knows_them_whatever_the_boundary(self, client, namespace, key):
        first = self.upload(client, namespace, key, b"A pump.", "one")
        again = self.upload(client, namespace, key, b"A pump.", "another")
        assert (first.status_code, again.content) == (202, first.content)
        problem(self.upload(client, namespace, key, b"A valve.", "one"), 422, "idempotency_key_reused")
        assert jobs(client) == [first.json()["job_id"]]


class DescribeAHundredAtOnce:
    @pytest.fixture
    def crowd(self, client) -> Iterator[httpx.Client]:
        limits = httpx.Limits(max_connections=100)
        with httpx.Client(base_url=client.base_url, headers=client.headers, limits=limits, timeout=60) as found:
            yield found

    def it_makes_one_job(self, client, crowd, namespace, key):
        body = {"namespace": namespace, "documents": [VALID]}
        with ThreadPoolExecutor(100) as threads:
            found = list(threads.map(lambda _: submit(crowd, key, body), range(100)))
        done = [each for each in found if each.status_code == 202]
        busy = [each for each in found if each.status_code == 409]
        assert done
        assert len(done) + len(busy) == 100
        assert {each.json()["code"] for each in busy} <= {"idempotency_key_in_use"}
        assert all(1 <= int(each.headers["retry-after"]) <= 5 for each in busy)
        assert len({each.content for each in done}) == 1
        assert jobs(client) == [done[0].json()["job_id"]]


class DescribeOtherPosts:
    def it_makes_one_webhook(self, client, key):
        body = {"url": "https://8.8.8.8/hook"}
        first, again = (submit(client, key, body, path="/v1/webhooks") for _ in range(2))
        assert first.status_code == 201, first.text
        assert again.content == first.content
        assert len(client.get("/v1/webhooks").json()["data"]) == 1

    def it_asks_one_query(self, client, namespace, key):
        ended(client, send(client, namespace, VALID))
        body = {"query_text": "pump", "namespaces": [namespace]}
        first, again = (submit(client, key, body, path="/v1/queries") for _ in range(2))
        assert first.json()["query_id"] == again.json()["query_id"]

    def it_keeps_an_answer_where_there_is_no_body(self, client, key):
        made = client.post("/v1/webhooks", json={"url": "https://8.8.8.8/hook"}).json()
        path = f"/v1/webhooks/{made['webhook_id']}/enable"
        first, again = (client.post(path, headers={"Idempotency-Key": key}) for _ in range(2))
        assert (first.status_code, first.content) == (200, again.content)
        assert again.headers["idempotency-replayed"] == "true"


class DescribeAGatewayThatDied:
    """Between what it did and its answer: the row is as it was when the process ended, and the lease is over."""

    def die(self, use: Resources, client: httpx.Client) -> None:
        statement = (
            "UPDATE idempotency_keys SET status = NULL, answer = NULL, fingerprint = NULL,"
            " claimed_until = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND WHERE tenant_id = :tenant"
        )
        tenant = client.headers["authorization"].split("_")[1]
        with unit_of_work(use.mysql) as work:
            assert work.connection.execute(text(statement), {"tenant": tenant}).rowcount == 1

    def it_has_made_the_job_that_the_next_attempt_finds(self, use, client, namespace, key):
        body = {"namespace": namespace, "documents": [VALID]}
        first = submit(client, key, body)
        self.die(use, client)
        again = submit(client, key, body)
        assert (again.status_code, again.json()) == (202, first.json())
        assert jobs(client) == [first.json()["job_id"]]

    def it_frees_the_key_for_another_body_too(self, use, client, namespace, key):
        submit(client, key, {"namespace": namespace, "documents": [VALID]})
        self.die(use, client)
        other = submit(client, key, {"namespace": namespace, "documents": [VALID | {"text": "Another."}]})
        assert other.status_code == 202
        assert len(jobs(client)) == 2
