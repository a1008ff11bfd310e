"""Senders that mean ill, or whose network does: each gets a clear answer, and nobody else notices."""

from __future__ import annotations

import contextlib
import socket
import time
from contextlib import ExitStack
from urllib.parse import quote

import httpx
import pytest

from tests.conftest import make_tenant
from tests.support.clients.gateway_client import VALID, ended, send
from tests.support.clients.gateway_figures import resident_bytes
from tests.support.clients.raw_http import answer, connected, exchange, head

PROMPT_S = 1.0  # a hundred times what it takes, on a machine that does other things too
JSON = "Content-Type: application/json"


@pytest.fixture
def key(use) -> str:
    return make_tenant(use)[1]


def alive_within_s(client: httpx.Client) -> float:
    began = time.monotonic()
    assert client.get("/healthz").status_code == 200
    return time.monotonic() - began


class DescribeAnUploadThatIsTooLarge:
    def it_is_refused_before_it_is_read(self, key):
        with connected() as connection:
            connection.sendall(head(key, "POST /v1/documents", JSON, "Content-Length: 1000000000000"))
            status, _, body = answer(connection)
        assert (status, body["code"]) == (413, "body_too_large")

    def it_is_refused_while_it_is_read(self, client, key):
        before = resident_bytes(client.get("/v1/metrics").text)
        chunk = b"%x\r\n%s\r\n" % (1 << 20, b"a" * (1 << 20))
        with connected() as connection:
            multipart = "Content-Type: multipart/form-data; boundary=b"
            connection.sendall(head(key, "POST /v1/files", multipart, "Transfer-Encoding: chunked"))
            start = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
            connection.sendall(b"%x\r\n%s\r\n" % (len(start), start))
            with contextlib.suppress(ConnectionError):  # the answer may come, and the door be shut, in the middle
                for _ in range(160):
                    connection.sendall(chunk)
            with contextlib.suppress(ConnectionError):
                status, _, body = answer(connection)
                assert (status, body["code"]) == (413, "body_too_large")
        assert (
            resident_bytes(client.get("/v1/metrics").text) - before < 64 * 1024 * 1024
        )  # parts of files are on the disk
        assert client.get("/v1/jobs").json()["data"] == []


class DescribeAnUploadThatNeverEnds:
    def it_leaves_no_job_when_its_sender_hangs_up(self, client, key):
        for half in (b"", b'{"namespace": "kb", "docu'):
            with connected() as connection:
                connection.sendall(head(key, "POST /v1/documents", JSON, "Content-Length: 4000") + half)
                connection.shutdown(socket.SHUT_WR)
                status, _, _ = answer(connection)
            assert status in (0, 400)
        headers = {"Authorization": f"Bearer {key}"}
        assert client.get("/v1/jobs", headers=headers).json()["data"] == []

    def it_holds_up_nobody_while_it_trickles(self, client, key, namespace):
        with ExitStack() as stack:
            for _ in range(60):  # more than there are threads
                connection = stack.enter_context(connected())
                connection.sendall(head(key, "POST /v1/documents", JSON, "Content-Length: 4000") + b"{")
            assert ended(client, send(client, namespace, VALID))["status"] == "succeeded"
            assert alive_within_s(client) < PROMPT_S

    def it_frees_its_idempotency_key(self, client, key, namespace):
        with connected() as connection:
            lines = (JSON, "Idempotency-Key: broken-off", "Content-Length: 4000")
            connection.sendall(head(key, "POST /v1/documents", *lines) + b"{")
            time.sleep(0.3)
        headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": "broken-off"}
        body = {"namespace": namespace, "documents": [VALID]}
        for _ in range(50):
            found = client.post("/v1/documents", json=body, headers=headers)
            if found.status_code != 409:
                break
            time.sleep(0.1)
        assert found.status_code == 202


class DescribeHeadersThatInject:
    @pytest.mark.parametrize("value", ["a\x01b", "a b", "é", "x" * 129, ""])
    def it_returns_no_unprintable_request_id(self, key, value):
        status, headers, _ = exchange(head(key, "GET /v1/jobs", f"X-Request-ID: {value}"))
        assert status in (200, 400)
        assert headers.get("x-request-id") != value

    def it_puts_no_file_name_into_a_header(self, client, namespace):
        name = "a\r\nSet-Cookie: x=1.txt"
        files = [("file", (name, b"A pump.", "text/plain"))]
        found = client.post("/v1/files", files=files, data={"namespace": namespace})
        job = ended(client, found)
        assert "set-cookie" not in found.headers
        listed = client.get("/v1/documents", params={"namespace": namespace}).json()["data"]
        assert job["succeeded"] == len(listed) == 1
        assert "\n" not in listed[0]["document_id"]

    def it_takes_no_request_with_two_lengths(self, key):
        lines = (JSON, "Content-Length: 5", "Transfer-Encoding: chunked")
        status, _, _ = exchange(head(key, "POST /v1/documents", *lines) + b"0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n")
        assert 400 <= status < 500


class DescribePathsThatTrick:
    @pytest.mark.parametrize(
        "path",
        [
            "/v1/../v1/jobs",
            "/v1//jobs",
            "//elsewhere.example/v1/jobs",
            "/%2e%2e/%2e%2e/etc/passwd",
            "/console/..%2f..%2fetc%2fpasswd",
            "/v1/jobs/%00",
            "/v1/jobs/..%2f..%2fjobs",
            "/v1/documents/%c0%ae%c0%ae?namespace=kb",
            "/v1\\jobs",
            "/v1/jobs;a=b",
        ],
    )
    def it_answers_404_and_redirects_nobody(self, key, path):
        status, headers, body = exchange(head(key, f"GET {path}"))
        assert status in (400, 404)
        assert "location" not in headers
        if status == 404:
            assert body["code"].endswith("_not_found")

    def it_takes_a_file_name_for_no_path(self, client, namespace):
        names = ("../../etc/passwd", "..\\..\\boot.ini", "/etc/shadow", "C:\\x.txt")
        files = [("file", (name, f"The pump of {name}.", "text/plain")) for name in names]
        ended(client, client.post("/v1/files", files=files, data={"namespace": namespace}))
        listed = client.get("/v1/documents", params={"namespace": namespace}).json()["data"]
        assert len(listed) == len(names)
        for each in listed:
            path = f"/v1/documents/{quote(each['document_id'], safe='')}"
            assert client.get(path, params={"namespace": namespace}).json()["chunks"] == 1


@pytest.mark.thorough
class DescribeAThousandConnectionsThatSayNothing:
    def it_leaves_the_gateway_as_it_was(self, client):
        before = resident_bytes(client.get("/v1/metrics").text)
        with ExitStack() as stack:
            for _ in range(1000):
                stack.enter_context(connected())
            assert alive_within_s(client) < PROMPT_S
            assert resident_bytes(client.get("/v1/metrics").text) - before < 64 * 1024 * 1024
        assert alive_within_s(client) < PROMPT_S
