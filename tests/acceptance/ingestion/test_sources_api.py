"""Documents from every kind of source through the gateway, fetched by its workers, and what a dashboard sees of them."""

from __future__ import annotations

import base64
import os
import re
import threading
from collections.abc import Iterator

import httpx
import pytest

from chordwise.cli import run
from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import ended, pointers, problem, send
from tests.support.corpora.documents import finished, found_documents, search
from tests.support.corpora.formats import docx, paragraph, pdf, xlsx
from tests.support.servers.web_server import WebServer, page, redirect, waits
from tests.support.stacks.connections import in_mysql


@pytest.fixture
def web() -> Iterator[WebServer]:
    if "127.0.0.0/8" not in os.environ.get("CHORDWISE_FETCH_ALLOW_NETWORKS", ""):
        pytest.fail("set CHORDWISE_FETCH_ALLOW_NETWORKS=127.0.0.0/8 as make test does", pytrace=False)
    with WebServer() as server:
        yield server


def metric(client: httpx.Client, name: str, **labels: str) -> float:
    """One figure of the metrics page."""
    shown = ",".join(f'{key}="{value}"' for key, value in labels.items())
    found = re.search(rf"^{name}{{{shown}}} (\S+)$", client.get("/v1/metrics").text, re.MULTILINE)
    assert found, name
    return float(found[1])


def _report() -> bytes:
    """A page about this and many lines about that."""
    lines = (f"The pelican number {number} keeps fish in its pouch." for number in range(60))
    return pdf("Pelicans", "\n".join(lines))


class DescribeSources:
    def it_takes_text_bytes_files_and_addresses_in_one_request(self, client, namespace, web):
        web.pages["/old"] = redirect("/owl.html")
        web.pages["/owl.html"] = page(b"<h1>Owls</h1><p>The barn owl hears mice under the snow.")
        web.pages["/report"] = page(_report(), media_type=None)
        job = ended(
            client,
            send(
                client,
                namespace,
                {"document_id": "text", "text": "The kettle boils."},
                {"document_id": "inner", "source": {"text": "# Foxes\n\nThe fox digs.", "mime_type": "text/markdown"}},
                {
                    "source": {
                        "bytes": base64.b64encode(docx(paragraph("The swan sings."))).decode(),
                        "filename": "s.docx",
                    }
                },
                {"document_id": "owl", "source": {"uri": web.url("/old")}, "tags": ["bird"]},
                {"source": {"uri": web.url("/report"), "tags": ["bird"]}},
            ),
        )
        assert (job["status"], job["succeeded"]) == ("succeeded", 5), job
        assert found_documents(search(client, namespace, "who hears mice"))[0] == "owl"
        name = f"127.0.0.1:{web.port}/report"
        answer = search(client, namespace, "fish in a pouch", filters={"tags": ["bird"]})
        assert found_documents(answer)[0] == name
        found = client.get(f"/v1/documents/{name.replace('/', '%2F')}/chunks", params={"namespace": namespace}).json()
        assert [chunk["page"] for chunk in found["data"]][-1] == 2

    def it_keeps_the_sheet_and_the_rows_for_citations(self, client, namespace):
        book = xlsx({"Birds": [["name", "food"], ["pelican", "fish"], ["owl", "mice"]]})
        client.post("/v1/files", data={"namespace": namespace}, files={"file": ("b.xlsx", book)})
        answer = client.post(
            "/v1/files", data={"namespace": namespace, "priority": "bulk"}, files={"file": ("b.xlsx", book)}
        )
        job = ended(client, answer)
        assert (job["status"], job["priority"]) == ("succeeded", "bulk")
        [chunk] = client.get("/v1/documents/b.xlsx/chunks", params={"namespace": namespace}).json()["data"]
        assert chunk["heading_path"] == ["Birds", "rows 2-3"]

    def it_refuses_at_once_what_could_never_be_fetched(self, client, namespace):
        refused = send(client, namespace, {"source": {"uri": "file:///etc/passwd"}})
        assert pointers(problem(refused, 422, "fetch_refused")) == ["/documents/0/source/uri"]

    def it_parks_what_leads_into_another_network(self, client, namespace, web):
        web.pages["/meta"] = redirect("http://169.254.169.254/latest/meta-data/")
        job = ended(client, send(client, namespace, {"document_id": "m", "source": {"uri": web.url("/meta")}}))
        assert [error["code"] for error in job["errors"]] == ["fetch_refused"]

    def it_lets_nothing_else_wait_for_a_slow_server(self, client, namespace, web):
        gate = threading.Event()
        held = waits(gate, page(b"late", media_type="text/plain"))
        web.pages |= {f"/{n}": held for n in range(40)}
        try:
            late = send(client, namespace, *({"source": {"uri": web.url(f"/{n}")}} for n in range(40)))
            job = ended(client, send(client, namespace, {"document_id": "quick", "text": "The kettle boils."}))
            assert job["status"] == "succeeded"
            assert client.get(late.headers["location"]).json()["finished_at"] is None
        finally:
            gate.set()
        assert finished(client, late.json()["job_id"], wait_s=60)["succeeded"] == 40

    def it_is_reached_from_the_command_line(self, use, namespace, web, monkeypatch, capsys):
        web.pages["/owl"] = page(b"The barn owl hears mice.", media_type="text/plain")
        _, key = make_tenant(use)
        monkeypatch.setenv("CHORDWISE_API_KEY", key)
        assert run(["ingest", web.url("/owl"), "--namespace", namespace, "--wait"]) == 0
        assert "1 succeeded" in capsys.readouterr().out
        assert run(["ingest", web.url("/nothing"), "--namespace", namespace, "--wait"]) == 1
        assert "404" in capsys.readouterr().err


@pytest.mark.alone  # they count what every test leaves behind
class DescribeDeadLetterCounters:
    def it_falls_again_after_a_replay(self, client, namespace, web):
        before = metric(client, "chordwise_dead_letters", reason="rejected")
        job = ended(client, send(client, namespace, *({"source": {"uri": web.url(f"/{n}")}} for n in range(3))))
        assert job["failed"] == 3
        assert metric(client, "chordwise_dead_letters", reason="rejected") == before + 3
        web.pages |= {f"/{n}": page(b"The barn owl.", media_type="text/plain") for n in range(3)}
        assert client.post("/v1/dead-letters/replay", json={"all": True}).json() == {"replayed": 3}
        job = finished(client, job["job_id"])
        assert (job["failed"], job["succeeded"], job["errors"]) == (0, 3, [])
        assert metric(client, "chordwise_dead_letters", reason="rejected") == before
        assert client.get("/v1/dead-letters").json()["data"] == []

    def it_tells_what_waits_and_for_how_long(self, client, namespace, web):
        web.pages["/busy"] = page(b"", status=503, Retry_After="600")
        later = metric(client, "chordwise_ingest_items", state="later")
        accepted = send(client, namespace, {"source": {"uri": web.url("/busy")}})
        client.get(accepted.headers["location"], params={"wait": 2})
        assert metric(client, "chordwise_ingest_items", state="later") == later + 1
        assert metric(client, "chordwise_ingest_oldest_seconds", state="later") > 0
        assert client.get(accepted.headers["location"]).json()["waiting_reason"] in ("retrying", None)
        assert client.post(f"{accepted.headers['location']}/cancel").status_code == 200
        assert metric(client, "chordwise_ingest_items", state="later") == later


class DescribeQuotas:
    def it_shows_limits_and_refuses_uploads_beyond_them(self, use, namespace, settings):
        tenant, key = make_tenant(use)
        with gateway(key) as client:
            assert client.get("/v1/quotas").json() == {
                name: {"limit": getattr(settings, f"quota_{name}"), "used": 0}
                for name in ("documents", "chunks", "queued", "tokens", "answer_bytes")
            }
            in_mysql(
                use, "UPDATE tenants SET quota_documents = 2, quota_queued = 3 WHERE tenant_id = :tenant", tenant=tenant
            )
            ended(client, send(client, namespace, {"document_id": "a", "text": "The kettle boils."}))
            shown = client.get("/v1/quotas").json()
            assert shown["documents"] == {"limit": 2, "used": 1}
            assert shown["chunks"] == {"limit": settings.quota_chunks, "used": 1}
            many = problem(send(client, namespace, *({"text": f"t {n}"} for n in range(2))), 403, "quota_exceeded")
            assert many["quota"] == {"name": "documents", "limit": 2, "used": 3}
            assert "3 documents" in many["detail"]
            in_mysql(use, "UPDATE tenants SET quota_documents = NULL WHERE tenant_id = :tenant", tenant=tenant)
            too_many = problem(send(client, namespace, *({"text": f"t {n}"} for n in range(4))), 403, "quota_exceeded")
            assert too_many["quota"]["name"] == "queued"
            # Paused items wait, so the queue stays full during this test.
            in_mysql(
                use,
                "UPDATE jobs j JOIN job_items i ON i.tenant_id = j.tenant_id AND i.job_id = j.job_id"
                " SET i.state = 'queued', j.finished_at = NULL, j.paused_at = UTC_TIMESTAMP()"
                " WHERE j.tenant_id = :tenant",
                tenant=tenant,
            )
            answer = send(client, namespace, *({"text": f"t {n}"} for n in range(3)))
            full = problem(answer, 429, "too_many_queued")
            assert full["quota"] == {"name": "queued", "limit": 3, "used": 1}
            assert answer.headers["ratelimit-policy"].startswith('"queued";q=3;qu="documents"')
            assert answer.headers["ratelimit"].startswith(f'"queued";r=2;t={answer.headers["retry-after"]}')
