"""Fetching from servers that mean no good, on real sockets of loopback."""

from __future__ import annotations

import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path

import pytest

from pipeline.errors import DocumentTooLarge, FetchFailed, FetchRefused, FetchUnavailable
from pipeline.outbound.connect_client import resolved
from pipeline.outbound.fetch_client import Fetcher
from tests.support.servers.web_server import (
    WebServer,
    cut_off,
    dripping_headers,
    endless,
    packed,
    page,
    redirect,
    slow,
)
from tests.support.stacks.patience import SPARE_S

LOOPBACK = (ip_network("127.0.0.0/8"),)


@pytest.fixture
def web() -> Iterator[WebServer]:
    with WebServer() as server:
        yield server


def fetcher(**changes) -> Fetcher:
    return Fetcher(**{"timeout_s": 10.0, "max_bytes": 100_000, "permitted": LOOPBACK, **changes})


def raised_or(answer):
    """Return the answer, or raise it if it is an error."""
    if isinstance(answer, Exception):
        raise answer
    return answer


def raising(error):
    """Return a resolver that raises ``error``."""
    return lambda host, port: raised_or(error)


class DescribeAFetch:
    def it_gives_the_body_and_what_the_server_calls_it(self, web):
        web.pages["/a?b=c%20d"] = page("Füchse".encode(), media_type="text/plain; charset=utf-8")
        found = fetcher().fetch(web.url("/a?b=c d#part"))
        assert (found.body.decode(), found.content_type) == ("Füchse", "text/plain; charset=utf-8")
        assert web.hosts == [f"127.0.0.1:{web.port}"]

    def it_follows_five_redirects_and_no_more(self, web):
        web.pages |= {f"/{number}": redirect(f"/{number - 1}") for number in range(1, 7)}
        web.pages["/0"] = page(b"here")
        found = fetcher().fetch(web.url("/5"))
        assert (found.body, found.uri) == (b"here", web.url("/0"))
        with pytest.raises(FetchFailed, match="more than 5"):
            fetcher().fetch(web.url("/6"))

    def it_uses_no_proxy_of_the_environment(self, web, monkeypatch):
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        web.pages["/"] = page(b"here")
        assert fetcher().fetch(web.url()).body == b"here"

    @pytest.mark.parametrize("name", ["gzip", "x-gzip"])
    def it_unpacks_what_is_packed(self, web, name):
        web.pages["/"] = packed(b"a" * 50_000)
        assert fetcher().fetch(web.url()).body == b"a" * 50_000

    def it_asks_for_the_name_and_checks_its_certificate_at_the_address_it_looked_up(self, tmp_path):
        certificate = certificate_for("books.example", tmp_path)
        trusting = ssl.create_default_context(cafile=certificate[0])
        with WebServer(certificate=certificate) as secure:
            secure.pages["/"] = page(b"here")
            by_name = fetcher(ssl_context=trusting, resolve=lambda host, port: ["127.0.0.1"])
            assert by_name.fetch(secure.url(host="books.example")).body == b"here"
            assert secure.hosts == [f"books.example:{secure.port}"]
            with pytest.raises(FetchFailed, match="certificate"):
                by_name.fetch(secure.url(host="other.example"))
            with pytest.raises(FetchFailed, match="certificate"):
                fetcher(resolve=lambda host, port: ["127.0.0.1"]).fetch(secure.url(host="books.example"))


def certificate_for(name: str, folder: Path) -> tuple[str, str]:
    """A certificate that signs itself, and its key."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={name} -addext subjectAltName=DNS:{name}"
    subprocess.run([*command.split(), "-out", certificate, "-keyout", key], check=True, capture_output=True)
    return str(certificate), str(key)


class DescribeAddresses:
    @pytest.mark.parametrize(
        "host",
        ["127.0.0.1", "localhost", "0x7f000001", "2130706433", "127.1", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]"],
    )
    def it_refuses_its_own_host_in_every_spelling(self, web, host):
        with pytest.raises(FetchRefused):
            fetcher(permitted=()).fetch(web.url(host=host))
        assert not web.asked

    @pytest.mark.parametrize(
        "host",
        ["10.0.0.1", "169.254.169.254", "100.100.100.200", "[64:ff9b::a00:1]", "[2002:7f00:1::]", "[fd00:ec2::254]"],
    )
    def it_refuses_inner_networks_and_what_leads_into_them(self, host):
        with pytest.raises(FetchRefused):
            fetcher().fetch(f"http://{host}/latest/meta-data/")

    @pytest.mark.parametrize(
        "uri",
        [
            "file:///etc/passwd",
            "gopher://127.0.0.1/",
            "ftp://example.com/a",
            "//example.com/a",
            "http://user:secret@example.com/",
            "http://user@example.com/",
            "http://",
            "http://exa mple.com/",
            "http://example.com\\@127.0.0.1/",
            "http://example.com/\r\nHost: inner",
            "http://example.com:0/",
            "http://example.com:99999/",
            "http://[::1",
            "http://[fe80::1%25eth0]/",
            "http://" + "a" * 3000,
        ],
    )
    def it_refuses_what_is_no_plain_web_address(self, uri):
        with pytest.raises(FetchRefused):
            fetcher().fetch(uri)

    def it_refuses_a_name_if_one_of_its_addresses_is_not_public(self, web):
        web.pages["/"] = page(b"secret")
        both = fetcher(permitted=(), resolve=lambda host, port: ["93.184.215.14", "127.0.0.1"])
        with pytest.raises(FetchRefused):
            both.fetch(web.url(host="rebind.example"))
        assert not web.asked

    def it_connects_to_the_address_it_looked_at_and_not_to_what_the_name_means_later(self, web):
        web.pages["/"] = page(b"ours")
        answers = iter([["127.0.0.1"], ["10.0.0.1"]])
        assert fetcher(resolve=lambda host, port: next(answers)).fetch(web.url(host="rebind.example")).body == b"ours"
        assert next(answers) == ["10.0.0.1"]  # it was asked once

    def it_looks_again_at_every_redirect(self, web):
        web.pages["/"] = redirect(web.url("/inner", host="inner.example"))
        web.pages["/inner"] = page(b"secret")
        addresses = {"outer.example": ["127.0.0.1"], "inner.example": ["127.0.0.2", "10.0.0.8"]}
        with pytest.raises(FetchRefused):
            fetcher(resolve=lambda host, port: addresses[host]).fetch(web.url(host="outer.example"))
        assert web.asked == {"/": 1}

    @pytest.mark.parametrize(
        "location", ["file:///etc/passwd", "http://10.0.0.1/", "http://u:p@example.com/", "//[::1"]
    )
    def it_follows_no_redirect_to_what_it_would_refuse(self, web, location):
        web.pages["/"] = redirect(location)
        with pytest.raises(FetchRefused):
            fetcher().fetch(web.url())

    def it_tries_the_next_address_of_a_name_when_one_does_not_answer(self, web):
        web.pages["/"] = page(b"here")
        found = fetcher(resolve=lambda host, port: ["127.0.0.9", "127.0.0.1"]).fetch(web.url(host="two.example"))
        assert found.body == b"here"


class DescribeLimits:
    def it_stops_at_the_limit_whatever_was_promised(self, web):
        web.pages["/said"] = page(b"x" * 100_001)
        web.pages["/endless"] = endless()
        for path in ("/said", "/endless"):
            with pytest.raises(DocumentTooLarge):
                fetcher().fetch(web.url(path))

    def it_counts_what_comes_out_of_the_packing(self, web):
        web.pages["/"] = packed(b"\0" * 50_000_000)
        began = time.process_time()
        with pytest.raises(DocumentTooLarge):
            fetcher().fetch(web.url())
        assert time.process_time() - began < 1.0

    @pytest.mark.parametrize(
        "answer",
        [
            slow(10.0, page(b"late")),
            endless(b"x", pause_s=0.05),
            dripping_headers(0.05),
        ],
        ids=["silence", "dripping body", "dripping headers"],
    )
    def it_gives_up_at_its_deadline_however_the_time_goes_by(self, web, answer):
        web.pages["/"] = answer
        began = time.monotonic()
        with pytest.raises(FetchUnavailable):
            fetcher(timeout_s=0.6).fetch(web.url())
        assert time.monotonic() - began < 0.6 + SPARE_S

    def it_gives_up_at_its_deadline_on_a_name_that_is_not_looked_up(self):
        asked, released = [], threading.Event()

        def hanging(host, port):
            asked.append(host)
            released.wait(30)
            return ["127.0.0.1"]

        began = time.monotonic()
        with pytest.raises(FetchUnavailable, match=r"within 0\.4 s"):
            fetcher(timeout_s=0.4, resolve=hanging).fetch("http://slow.example/")
        assert time.monotonic() - began < 0.4 + SPARE_S
        assert asked == ["slow.example"]
        released.set()

    def it_counts_redirects_into_its_time(self, web):
        web.pages |= {f"/{number}": slow(0.3, redirect(f"/{number + 1}")) for number in range(5)}
        with pytest.raises(FetchUnavailable):
            fetcher(timeout_s=0.7).fetch(web.url("/0"))
        assert web.asked.total() <= 3


class DescribeRefusals:
    @pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451, 304, 300])
    def it_parks_what_the_server_refuses_with_its_status(self, web, status):
        web.pages["/"] = page(b"", status=status)
        with pytest.raises(FetchFailed, match=str(status)):
            fetcher().fetch(web.url())

    @pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
    def it_comes_back_to_a_server_that_cannot_now(self, web, status):
        web.pages["/"] = page(b"", status=status, Retry_After="7")
        with pytest.raises(FetchUnavailable, match=str(status)) as error:
            fetcher().fetch(web.url())
        assert error.value.retry_after_s == 7

    def it_comes_back_after_a_broken_connection(self, web):
        web.pages["/cut"] = cut_off(b"half", promised=1000)
        web.pages["/gone"] = lambda handler: handler.connection.close()
        for uri in (web.url("/cut"), web.url("/gone"), "http://127.0.0.1:9/"):
            with pytest.raises(FetchUnavailable):
                fetcher().fetch(uri)

    def it_refuses_a_packing_it_did_not_ask_for_and_one_that_is_broken(self, web):
        web.pages["/br"] = page(b"abc", Content_Encoding="br")
        web.pages["/twice"] = page(b"abc", Content_Encoding="gzip, gzip")
        web.pages["/broken"] = page(b"no gzip at all", Content_Encoding="gzip")
        for path in ("/br", "/twice", "/broken"):
            with pytest.raises(FetchFailed):
                fetcher().fetch(web.url(path))

    @pytest.mark.parametrize(
        "resolve",
        [
            lambda host, port: ["10.0.0.7"],
            lambda host, port: ["93.184.215.14", "10.0.0.7"],
            lambda host, port: [],
            raising(FetchFailed("there is no such name")),
            raising(FetchUnavailable("nobody can tell")),
            resolved,
        ],
        ids=["private", "partly private", "no address", "no name", "no answer", "the system's own"],
    )
    def it_says_the_same_of_every_host_it_does_not_ask(self, resolve):
        began = time.monotonic()
        with pytest.raises(FetchRefused) as refused:
            fetcher(resolve=resolve).fetch("http://db.inner.invalid/")
        assert str(refused.value) == "db.inner.invalid has no address that this installation may ask"
        assert 0.9 < time.monotonic() - began < 3.0

    def it_asks_again_while_the_system_cannot_tell(self, web):
        web.pages["/"] = page(b"here")
        answers = iter([FetchUnavailable("nobody can tell"), ["127.0.0.1"]])
        found = fetcher(resolve=lambda host, port: raised_or(next(answers))).fetch(web.url(host="flaky.example"))
        assert found.body == b"here"
