"""Calling business APIs that mean no good, on real sockets of loopback."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from ipaddress import ip_network

import pytest

from pipeline.api_sources.api_client import ApiCaller
from pipeline.api_sources.api_request import ApiRequest, request_of
from pipeline.api_sources.api_source import ApiMapping, ApiSource
from pipeline.errors import ApiSourceFailed, ApiSourceUnavailable
from tests.support.servers.business_api import BusinessApi, business_api, endless, says, slowly
from tests.support.stacks.patience import SPARE_S

LOOPBACK = (ip_network("127.0.0.0/8"),)


@pytest.fixture
def api() -> Iterator[BusinessApi]:
    with business_api() as found:
        yield found


def request_to(url: str, **fields) -> ApiRequest:
    source = ApiSource(url=url, mapping=ApiMapping(text="/t"), **fields)
    return request_of(source, {"query": "瓷 & b", "top_k": 3, "namespaces": ["kb"], "filters": {}})


def call(request: ApiRequest, *, permitted=LOOPBACK, timeout_s=1.0, max_bytes=10_000, headers=None, **caller) -> bytes:
    return ApiCaller(permitted=permitted, **caller).call(
        request, headers=headers or {}, timeout_s=timeout_s, max_bytes=max_bytes
    )


class DescribeACall:
    def it_sends_parameters_and_headers(self, api):
        api.answers["/search"] = says([])
        sent = request_to(f"{api.url}/search?fixed=1", params={"q": "{query}", "n": "{top_k}"})
        assert call(sent, headers={"Authorization": "Bearer s"}) == b"[]"
        (asked,) = api.asked
        assert (asked.method, asked.params) == ("GET", {"fixed": ["1"], "q": ["瓷 & b"], "n": ["3"]})
        assert asked.headers["authorization"] == "Bearer s"
        assert asked.headers["host"] == api.url.removeprefix("http://")
        assert asked.headers["accept"] == "application/json"

    def it_sends_a_body(self, api):
        api.answers["/search"] = says({})
        call(
            request_to(f"{api.url}/search", method="POST", body={"q": "{query}", "n": "{top_k}", "deep": ["{filters}"]})
        )
        assert api.asked[0].body == {"q": "瓷 & b", "n": 3, "deep": [{}]}
        assert api.asked[0].headers["content-type"] == "application/json"

    def it_posts_without_a_body(self, api):
        api.answers["/search"] = says([1])
        assert call(request_to(f"{api.url}/search", method="POST")) == b"[1]"

    def it_unpacks(self, api):
        api.answers["/"] = says(gzip.compress(b"[2]"), **{"Content-Encoding": "gzip"})
        assert call(request_to(api.url)) == b"[2]"

    def it_uses_no_proxy_of_the_environment(self, api, monkeypatch):
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        api.answers["/"] = says([])
        assert call(request_to(api.url)) == b"[]"


class DescribeBadAnswers:
    @pytest.mark.parametrize(
        ("status", "error"),
        [
            (400, ApiSourceFailed),
            (401, ApiSourceFailed),
            (404, ApiSourceFailed),
            (408, ApiSourceUnavailable),
            (429, ApiSourceUnavailable),
            (500, ApiSourceUnavailable),
            (503, ApiSourceUnavailable),
            (599, ApiSourceUnavailable),
        ],
    )
    def it_tells_what_may_pass_from_what_will_not(self, api, status, error):
        api.answers["/"] = says({"secret": "text"}, status=status)
        with pytest.raises(error, match=f"answered {status}") as raised:
            call(request_to(api.url))
        assert "text" not in str(raised.value)

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def it_refuses_redirects_wherever_they_lead(self, api, status):
        api.answers["/"] = says({}, status=status, Location="http://169.254.169.254/latest/meta-data")
        with pytest.raises(ApiSourceFailed, match="redirects are not followed"):
            call(request_to(api.url))
        assert len(api.asked) == 1

    @pytest.mark.parametrize("declared", [True, False])
    def it_stops_reading_what_is_too_long(self, api, declared):
        api.answers["/"] = says(b"x" * 10_001) if declared else endless
        with pytest.raises(ApiSourceFailed, match="more than 10000 bytes"):
            call(request_to(api.url))

    def it_counts_unpacked_bytes(self, api):
        api.answers["/"] = says(gzip.compress(b"x" * 1_000_000), **{"Content-Encoding": "gzip"})
        with pytest.raises(ApiSourceFailed, match="more than 10000 bytes"):
            call(request_to(api.url))

    def it_keeps_to_its_time(self, api):
        api.answers["/"] = slowly(8.0, [])
        started = time.monotonic()
        with pytest.raises(ApiSourceUnavailable, match=r"within 0\.2 s"):
            call(request_to(api.url), timeout_s=0.2)
        assert time.monotonic() - started < 0.2 + SPARE_S

    def it_says_that_nobody_is_there(self):
        with pytest.raises(ApiSourceUnavailable, match="could not be connected to"):
            call(request_to("http://127.0.0.1:9/"))


class DescribeTheGuard:
    @pytest.mark.parametrize(
        "url", ["https://127.0.0.1:1/", "https://[::1]/", "https://169.254.169.254/", "https://10.0.0.1"]
    )
    def it_calls_no_inner_address(self, url):
        with pytest.raises(ApiSourceFailed, match="has no address that this installation may ask"):
            call(request_to(url), permitted=())

    def it_looks_at_every_address_of_a_name(self, api):
        for scheme in ("http", "https"):
            with pytest.raises(ApiSourceFailed):
                call(request_to(f"{scheme}://crm.example/"), resolve=lambda host, port: ["127.0.0.1", "10.0.0.1"])
        assert api.asked == []

    def it_calls_public_hosts_over_tls_only(self):
        with pytest.raises(ApiSourceFailed, match="over https only"):
            call(request_to("http://crm.example/"), resolve=lambda host, port: ["93.184.215.14"])
