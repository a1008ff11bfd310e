"""Request heads over raw connections to the real gateway: the limits, and the cost of a head beyond them."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress

import pytest

from api_gateway.http.connections import MOST_HEAD_BYTES, MOST_HEADERS
from api_gateway.http.request_context import MOST_PARAMETERS
from tests.conftest import make_tenant
from tests.support.clients.gateway_figures import resident_bytes
from tests.support.clients.raw_http import answer, connected, exchange, head

MANY_BYTES = 24 * 1024 * 1024  # stalled every other request for seconds
PROMPT_S = 1.0
JSON = "Content-Type: application/json"


@pytest.fixture
def key(use) -> str:
    return make_tenant(use)[1]


def poured(connection: socket.socket, begin: bytes, piece: bytes) -> int:
    """Send ``begin`` and pieces until the gateway closes the connection. Return how many bytes it accepted."""
    sent = 0
    with suppress(ConnectionError, TimeoutError):
        connection.sendall(begin)
        while sent < MANY_BYTES:
            connection.sendall(piece)
            sent += len(piece)
    return sent


TOP = b"GET /healthz HTTP/1.1\r\nHost: gateway\r\n"
ENDLESS = {
    "one header": (TOP + b"X: ", b"a" * 65536),
    "one name": (TOP, b"a" * 65536),
    "many headers": (TOP, b"X: a\r\n" * 10_000),
    "one address": (b"GET /healthz?", b"a=1&" * 16384),
    "nothing but ends of lines": (b"", b"\r\n" * 32768),
    "trailers": (
        b"POST /v1/documents HTTP/1.1\r\nHost: gateway\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX: ",
        b"a" * 65536,
    ),
    "extensions of a chunk": (
        b"POST /v1/documents HTTP/1.1\r\nHost: gateway\r\nTransfer-Encoding: chunked\r\n\r\n2;x=",
        b"a" * 65536,
    ),
}


class DescribeAHeadThatNeverEnds:
    @pytest.mark.parametrize("name", ENDLESS)
    def it_is_not_read_and_stalls_nobody(self, client, name):
        before = resident_bytes(client.get("/v1/metrics").text)
        with connected() as connection:
            taken: list[int] = []
            pouring = threading.Thread(target=lambda: taken.append(poured(connection, *ENDLESS[name])))
            pouring.start()
            slowest = 0.0
            while pouring.is_alive():
                began = time.monotonic()
                assert client.get("/healthz").status_code == 200
                slowest = max(slowest, time.monotonic() - began)
            pouring.join()
        assert slowest < PROMPT_S
        assert taken[0] < MANY_BYTES / 2  # including the system's buffers of both ends
        assert resident_bytes(client.get("/v1/metrics").text) - before < 16 * 1024 * 1024


class DescribeAHeadThatIsTooLarge:
    @pytest.mark.parametrize(
        ("request_line", "headers", "limit"),
        [
            ("GET /v1/jobs", [f"X-Long: {'a' * MOST_HEAD_BYTES}"], {"name": "head_bytes", "limit": MOST_HEAD_BYTES}),
            ("GET /v1/jobs?" + "a" * MOST_HEAD_BYTES, [], {"name": "head_bytes", "limit": MOST_HEAD_BYTES}),
            ("GET /v1/jobs", [f"X-{n}: a" for n in range(MOST_HEADERS)], {"name": "headers", "limit": MOST_HEADERS}),
        ],
        ids=["bytes", "address", "headers"],
    )
    def it_is_431_and_says_which_limit(self, key, request_line, headers, limit):
        status, told, body = exchange(head(key, request_line, *headers))
        assert (status, body["code"], body["limit"]) == (431, "head_too_large", limit)
        assert body["request_id"] == told["x-request-id"]
        assert told["content-type"] == "application/problem+json"

    def it_is_said_in_the_dialect_of_the_path(self, key):
        headers = [f"X-{n}: a" for n in range(MOST_HEADERS)]
        status, _, body = exchange(head(key, "GET /openai/v1/vector_stores", *headers))
        assert (status, body["error"]["code"]) == (431, "head_too_large")

    def it_is_taken_up_to_the_limit_however_it_arrives(self, key):
        most = [f"X-{n}: a" for n in range(MOST_HEADERS - 2)]  # beside Host and Authorization
        assert exchange(head(key, "GET /v1/jobs", *most))[0] == 200
        long = head(key, "GET /v1/jobs", f"X-Long: {'a' * (MOST_HEAD_BYTES - 400)}")
        with connected() as connection:
            for start in range(0, len(long), 7919):
                connection.sendall(long[start : start + 7919])
                time.sleep(0.001)
            assert answer(connection)[0] == 200

    def it_is_none_if_it_only_follows_a_large_body_on_the_same_connection(self, key):
        body = b'{"namespace": "kb", "documents": [], "filler": "' + b"a" * 300_000 + b'"}'
        first = head(key, "POST /v1/documents", JSON, f"Content-Length: {len(body)}") + body
        with connected() as connection:
            connection.sendall(first + head(key, "GET /v1/jobs", f"X-Long: {'a' * 30_000}"))
            assert answer(connection)[0] == 422
            assert answer(connection)[0] == 200


class DescribeAHeadThatIsAmbiguous:
    @pytest.mark.parametrize("line", ["GET /v1/jobs", "POST /dify/retrieval", "GET /openai/v1/files", "POST /mcp"])
    def it_is_400_with_two_authorizations(self, key, line):
        status, _, body = exchange(head(key, line, f"Authorization: Bearer {key}", "Content-Length: 0"))
        assert status == 400
        assert (
            "duplicate_authorization" in (body.get("code"), body.get("error", {}).get("code")) or "error_code" in body
        )

    def it_is_400_with_too_many_parameters(self, client):
        found = client.get("/v1/jobs?" + "&".join(["limit=1"] * (MOST_PARAMETERS + 1)))
        assert (found.status_code, found.json()["code"]) == (400, "too_many_parameters")
        assert found.json()["limit"] == {"name": "parameters", "limit": MOST_PARAMETERS}

    @pytest.mark.parametrize(
        ("version", "hosts", "status"),
        [
            ("1.1", [], 400),
            ("1.1", ["a", "b"], 400),
            ("1.1", ["a", "a"], 400),
            ("1.1", ["a b"], 400),
            ("1.1", ["a/b"], 400),
            ("1.1", ["a@b"], 400),
            ("1.1", [""], 200),
            ("1.1", ["gateway:8080"], 200),
            ("1.1", ["[::1]:8080"], 200),
            ("1.0", [], 200),
            ("1.0", ["a", "b"], 400),
        ],
    )
    def it_is_400_without_one_host(self, version: str, hosts: list[str], status: int):
        lines = [f"GET /healthz HTTP/{version}", *(f"Host: {host}" for host in hosts), "", ""]
        answered, _, body = exchange("\r\n".join(lines).encode())
        assert answered == status
        assert status == 200 or body["code"] == "malformed_request"

    def it_is_400_if_it_is_no_http(self):
        status, _, body = exchange(b"HELO gateway\r\n\r\n")
        assert (status, body["code"]) == (400, "malformed_request")

    @pytest.mark.parametrize("size", [b"-1", b"zz", b"f" * 17, b""])
    @pytest.mark.parametrize("pause_s", [0.0, 0.2])
    def it_is_400_if_a_chunk_of_the_body_has_no_size(self, key, size: bytes, pause_s: float):
        with connected() as connection:
            connection.sendall(head(key, "POST /v1/queries", JSON, "Transfer-Encoding: chunked"))
            time.sleep(pause_s)  # so that the route has begun to read
            connection.sendall(size + b"\r\n{}\r\n0\r\n\r\n")
            status, _, body = answer(connection)
        assert (status, body["code"]) == (400, "malformed_request")

    def it_takes_no_header_from_a_trailer(self):
        lines = ("Host: gateway", JSON, "Transfer-Encoding: chunked", "", "2", "{}", "0", "Authorization: Bearer x", "")
        status, _, body = exchange("\r\n".join(("POST /v1/documents HTTP/1.1", *lines, "")).encode())
        assert (status, body["code"]) == (401, "missing_api_key")


@pytest.mark.thorough
class DescribeAnIdleConnection:
    def it_takes_another_request_although_it_was_idle_for_longer_than_usual_servers_wait(self, key):
        request = head(key, "GET /v1/namespaces")
        with connected() as connection:
            for pause_s in (6.0, 0.0):
                connection.sendall(request)
                assert answer(connection)[0] == 200
                time.sleep(pause_s)
