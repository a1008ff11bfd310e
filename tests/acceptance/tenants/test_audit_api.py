"""The audit of searches and writes, cached answers, and the figures of all processes, through the gateway."""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pipeline.database.unit_of_work import unit_of_work
from pipeline.tenants.tenant_store import Tenants
from tests.conftest import gateway, make_tenant
from tests.support.corpora.documents import document, search, upload
from tests.support.stacks.connections import in_mysql
from tests.unit.test_alerts import _NAME, RULES


@pytest.fixture
def tenant_and_client(use) -> Iterator[tuple[str, httpx.Client]]:
    tenant_id, key = make_tenant(use)
    with gateway(key) as found:
        yield tenant_id, found


def audit_of(client: httpx.Client, *, until: int, wait_s: float = 30, **params: Any) -> list[dict[str, Any]]:
    """The rows, once there are so many."""
    ends = time.monotonic() + wait_s
    while time.monotonic() < ends:
        answer = client.get("/v1/audit", params={"limit": 200, **params})
        assert answer.status_code == 200, answer.text
        if len(found := answer.json()["data"]) >= until:
            return list(found)
        time.sleep(0.3)
    raise AssertionError(f"{len(found)} rows of {until} after {wait_s} s")


def figures(client: httpx.Client) -> dict[str, float]:
    """Each sample by name, its labels added up."""
    page = client.get("/v1/metrics")
    assert page.status_code == 200
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(page.text):
        found.setdefault(family.name, 0.0)
        found.setdefault(f"{family.name}_total", 0.0)
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


class DescribeTheAudit:
    def it_says_who_wrote_and_who_searched_and_keeps_the_question_to_itself(self, tenant_and_client, namespace):
        tenant_id, client = tenant_and_client
        upload(client, namespace, [document("d1", "Green tea is mild."), document("d2", "Soup is hot.")])
        request_id = f"mine-{uuid.uuid4().hex[:8]}"
        body = {"query_text": "green tea", "namespaces": [namespace]}
        answer = client.post("/v1/rag/query", json=body, headers={"X-Request-ID": request_id}).json()
        client.delete("/v1/documents/d2", params={"namespace": namespace})
        [row] = audit_of(client, until=1, action="search")
        assert row["tenant_id"] == tenant_id
        assert row["actor"]["key_name"] == "test"
        assert row["actor"]["scopes"] == ["admin", "read", "write"]
        assert len(row["actor"]["key_id"]) == 16
        assert (row["request_id"], row["namespaces"], row["status"]) == (request_id, [namespace], "succeeded")
        assert row["count"] == len(answer["chunks"])
        assert row["detail"]["query_id"] == answer["query_id"]
        assert row["detail"]["source_share"] == answer["stats"]["source_share"]
        assert row["query_text"] is None
        assert "green" not in json.dumps(row)
        actions = [each["action"] for each in audit_of(client, until=4)]
        assert sorted(actions) == ["delete", "ingest", "key_issue", "search"]
        written = {each["actor"]["key_id"] for each in audit_of(client, until=4) if each["action"] != "key_issue"}
        assert written == {row["actor"]["key_id"]}
        by_key = client.get("/v1/audit", params={"key_id": row["actor"]["key_id"]}).json()["data"]
        assert {each["actor"]["key_id"] for each in by_key} == written
        assert {each["action"] for each in client.get("/v1/audit", params={"key_id": ""}).json()["data"]} == {
            "key_issue"
        }
        assert client.get("/v1/audit", params={"key_id": "somebody"}).status_code == 422

    def it_comes_in_pages_and_as_lines(self, tenant_and_client, namespace):
        _, client = tenant_and_client
        for number in range(3):
            upload(client, namespace, [document(f"d{number}", "text")])
        whole = audit_of(client, until=4)
        seen, cursor = [], None
        while True:
            page = client.get("/v1/audit", params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
            seen += page["data"]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert seen == whole
        exported = client.get("/v1/audit/export")
        assert exported.headers["content-type"].startswith("application/x-ndjson")
        assert [json.loads(line) for line in exported.text.splitlines()] == whole
        only = client.get("/v1/audit/export", params={"action": "key_issue"}).text.splitlines()
        assert [json.loads(line)["action"] for line in only] == ["key_issue"]
        tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
        assert client.get("/v1/audit", params={"since": tomorrow}).json()["data"] == []
        assert client.get("/v1/audit", params={"until": tomorrow, "limit": 200}).json()["data"] == whole

    def it_takes_moments_that_utc_has_no_year_for(self, client):
        first, last = "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"
        whole = client.get("/v1/audit", params={"limit": 200}).json()["data"]
        assert [row["action"] for row in whole] == ["key_issue"]
        assert client.get("/v1/audit", params={"since": first, "until": last, "limit": 200}).json()["data"] == whole
        for moment, shown in ((last, whole), (first, [])):
            cursor = base64.urlsafe_b64encode(json.dumps(["audit", moment, "0"]).encode()).rstrip(b"=").decode()
            assert client.get("/v1/audit", params={"cursor": cursor, "limit": 200}).json()["data"] == shown

    def it_is_for_the_tenants_own_admins(self, tenant_and_client, namespace, use):
        tenant_id, client = tenant_and_client
        upload(client, namespace, [document("d1", "text")])
        with unit_of_work(use.mysql) as work:
            plain = Tenants(work.connection, tenant_id).issue_key("plain", ("read", "write"))
        with gateway(plain) as other:
            for path in ("/v1/audit", "/v1/audit/export"):
                refused = other.get(path)
                assert (refused.status_code, refused.json()["code"]) == (403, "insufficient_scope")
        _, foreign = make_tenant(use)
        with gateway(foreign) as other:
            assert {row["action"] for row in other.get("/v1/audit").json()["data"]} == {"key_issue"}

    @pytest.mark.parametrize(
        "params",
        [
            {"since": "2026-02-02T00:00:00Z", "until": "2026-02-01T00:00:00Z"},
            {"since": "yesterday"},
            {"cursor": "x"},
            {"limit": 0},
        ],
    )
    def it_refuses_impossible_parameters(self, client, params):
        answer = client.get("/v1/audit", params=params)
        assert answer.status_code == 422
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.fixture
def settled(use, tenant_and_client, namespace) -> tuple[httpx.Client, str]:
    """A namespace whose last change is long ago, so that its answers are kept."""
    tenant_id, client = tenant_and_client
    upload(client, namespace, [document("d1", "Green tea is mild.")])
    in_mysql(use, "UPDATE namespaces SET revised_at = '2000-01-01' WHERE tenant_id = :tenant", tenant=tenant_id)
    return client, namespace


class DescribeAnswersGivenAgain:
    def it_returns_a_kept_answer_until_a_document_changes(self, settled):
        client, namespace = settled
        first = search(client, namespace, "green tea")
        again = search(client, namespace, "green tea")
        assert (first["stats"]["cached"], again["stats"]["cached"]) == (False, True)
        assert again["chunks"] == first["chunks"]
        assert again["query_id"] != first["query_id"]
        assert client.get(f"/v1/queries/{again['query_id']}").json() == again
        upload(client, namespace, [document("d1", "Green tea is bitter.")])
        changed = search(client, namespace, "green tea")
        assert not changed["stats"]["cached"]
        assert [chunk["text"] for chunk in changed["chunks"]] == ["Green tea is bitter."]

    def it_keeps_to_cache_control(self, settled):
        client, namespace = settled
        body = {"query_text": "green tea", "namespaces": [namespace]}

        def cached(cache_control: str) -> bool:
            headers = {"Prefer": "wait=10", "Cache-Control": cache_control}
            return bool(client.post("/v1/queries", json=body, headers=headers).json()["stats"]["cached"])

        assert not cached("no-store")
        assert not cached("")  # so the one before was not kept
        assert cached("")
        assert not cached("max-age=0, No-Cache")
        assert cached("")

    def it_returns_a_kept_answer_to_a_query_that_does_not_wait(self, settled):
        client, namespace = settled
        search(client, namespace, "green tea")
        accepted = client.post("/v1/queries", json={"query_text": "green tea", "namespaces": [namespace]})
        assert accepted.status_code == 202
        found = client.get(accepted.headers["location"], params={"wait": 5}).json()
        assert found["stats"]["cached"]


class DescribeMetrics:
    def it_counts_queries_channels_and_tasks_of_all_processes(self, client, namespace):
        before = figures(client)
        upload(client, namespace, [document("d1", "Green tea is mild.")])
        for number in range(3):
            search(client, namespace, f"green tea {number}")
        ends = time.monotonic() + 15
        while time.monotonic() < ends:
            after = figures(client)
            grown = {name: after[name] - before.get(name, 0.0) for name in after}
            counted = (("chordwise_queries_total", 3), ("chordwise_channel_answers_total", 6))
            if all(grown.get(name, 0) >= least for name, least in (*counted, ("chordwise_documents_shown_total", 1))):
                break
            time.sleep(0.3)
        for name, least in (
            ("chordwise_queries_total", 3),
            ("recall_total_latency_ms_count", 3),
            ("recall_source_latency_ms_count", 6),
            ("chordwise_channel_seconds_count", 6),
            ("chordwise_documents_shown_total", 1),
            ("chordwise_tasks_total", 1),
        ):
            assert grown.get(name, 0) >= least, name
        assert 0 < after["recall_success_rate"] <= 1
        assert "chordwise_queue_messages" in after

    def it_shows_everything_that_the_alerts_watch(self, client, namespace):
        upload(client, namespace, [document("d1", "text")])
        shown = set(figures(client))
        watched = {name for rule in RULES for name in _NAME.findall(rule["expr"])}
        # Of the reconciler there is nothing before it has run; of dead letters, if there are none.
        assert watched - shown <= {"chordwise_alignment_last_run_timestamp_seconds", "chordwise_dead_letters"}

    def it_names_no_tenant_and_no_id(self, tenant_and_client, namespace):
        tenant_id, client = tenant_and_client
        upload(client, namespace, [document("secret-document", "Green tea is mild.")])
        search(client, namespace, "green tea")
        audit_of(client, until=1, action="search")
        page = client.get("/v1/metrics").text
        assert not any(word in page for word in (tenant_id, namespace, "secret-document"))
