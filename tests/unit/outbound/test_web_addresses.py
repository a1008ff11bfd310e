"""Addresses taken apart, what servers ask for, and what a fetched document is read as."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import FetchRefused, UnsupportedMediaType
from pipeline.outbound.web import redirected, retry_after_s, web_address
from pipeline.parsing.formats import CSV, DOCX, HTML, MARKDOWN, PDF, PLAIN, XLSX
from pipeline.parsing.sniffing import media_type_of_fetched
from tests.support.corpora.formats import docx, paragraph, pdf, xlsx


class DescribeWebAddress:
    @pytest.mark.parametrize(
        ("uri", "tidy"),
        [
            ("https://Example.COM", "https://example.com/"),
            ("HTTP://example.com:80/a#b", "http://example.com/a"),
            ("https://example.com:8443/a b?q=ü", "https://example.com:8443/a%20b?q=%C3%BC"),
            ("https://bücher.example/", "https://xn--bcher-kva.example/"),
            ("http://[2001:DB8::1]:81/", "http://[2001:db8::1]:81/"),
            ("  https://example.com/?a=%20&b=/?:@ ", "https://example.com/?a=%20&b=/?:@"),
        ],
    )
    def it_is_written_in_one_way(self, uri, tidy):
        assert web_address(uri).uri == tidy
        assert web_address(tidy).uri == tidy

    @given(st.text(max_size=60) | st.text(max_size=40).map("http://{}".format))
    def it_is_safe_to_send_or_refused(self, uri):
        with contextlib.suppress(FetchRefused):
            address = web_address(uri)
            assert address.uri.isascii()
            assert address.uri.isprintable()
            assert not set(" \\@") & set(address.host)

    @pytest.mark.parametrize(
        ("location", "to"),
        [
            ("/b", "https://a.example/b"),
            ("c?d", "https://a.example/x/c?d"),
            ("//b.example/y", "https://b.example/y"),
            ("http://b.example", "http://b.example/"),
        ],
    )
    def it_follows_relative_redirects(self, location, to):
        assert redirected("https://a.example/x/y", location).uri == to


class DescribeRetryAfter:
    @pytest.mark.parametrize(
        ("value", "seconds"),
        [
            (None, None),
            ("7", 7.0),
            (" 7 ", 7.0),
            ("0", 0.0),
            ("999999999999", 3600.0),
            ("Sun, 22 Nov 2026 12:02:00 GMT", 120.0),
            ("Sun, 22 Nov 2026 11:00:00 GMT", 0.0),
            ("soon", None),
            ("-5", None),
            ("", None),
        ],
    )
    def it_is_seconds_or_a_date(self, value, seconds):
        headers = {} if value is None else {"retry-after": value}
        assert retry_after_s(headers, now=datetime(2026, 11, 22, 12, tzinfo=UTC), most_s=3600.0) == seconds


class DescribeWhatAFetchedDocumentIs:
    @pytest.mark.parametrize(
        ("body", "declared", "path", "media_type"),
        [
            (pdf("x"), "text/html", "/a", PDF),
            (docx(paragraph("x")), "application/zip", "/a.zip", DOCX),
            (xlsx({"A": [["x"]]}), None, "/a", XLSX),
            (b"<p>x", "text/html; charset=gbk", "/a.txt", f"{HTML}; charset=gbk"),
            (b"a,b", "text/plain; charset=gbk", "/a.csv", f"{CSV};charset=gbk"),
            (b"# x", "text/plain", "/README.md?raw=1", MARKDOWN),
            (b"x", "text/plain", "/a", PLAIN),
            (b"\n<!doctype HTML><p>", "application/octet-stream", "/a", HTML),
            (b"x", None, "/", PLAIN),
            ("x y".encode("utf-16-le"), "text/plain", "/a", PLAIN),
        ],
    )
    def it_is_told_by_its_bytes_its_server_and_its_name(self, body, declared, path, media_type):
        assert media_type_of_fetched(body, declared=declared, uri=f"https://a.example{path}") == media_type

    @pytest.mark.parametrize(
        ("body", "declared"),
        [
            (b"\x89PNG\r\n", "image/png"),
            (b"\x89PNG\r\n", None),
            (b"MZ\0\0", "application/octet-stream"),
            (b"a\0b", None),
            (b'{"a": 1}\n', "application/x-ndjson"),
            (b"x", "video/mp4"),
        ],
    )
    def it_is_refused_if_nothing_reads_it(self, body, declared):
        with pytest.raises(UnsupportedMediaType):
            media_type_of_fetched(body, declared=declared, uri="https://a.example/a")
