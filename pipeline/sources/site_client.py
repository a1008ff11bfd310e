"""Read the pages that a sitemap names, or the files that the index of a folder on a web server links to."""

import hashlib
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urldefrag, urljoin, urlsplit

import httpx
from defusedxml.ElementTree import ParseError, fromstring  # type: ignore[import-untyped]

from pipeline.errors import FetchFailed, FetchUnavailable
from pipeline.sources.entry import MOST_FILES, Entry

_TIMEOUT_S = 30.0
_MOST_BYTES = 64 * 1024 * 1024  # of a sitemap or an index, unpacked; a sitemap may have 50 MB
_MOST_LISTS = 10_000  # sitemaps, or folders
_GZIP = zlib.MAX_WBITS | 16


class SiteReader:
    """The pages below an address."""

    def __init__(self, url: str, secret: Mapping[str, str]) -> None:
        self._url = url
        self._is_sitemap = urlsplit(url).path.endswith((".xml", ".xml.gz"))
        origin = urlsplit(url)
        self._base = f"{origin.scheme}://{origin.netloc}/" if self._is_sitemap else urljoin(url, ".")
        auth = (secret["username"], secret.get("password", "")) if "username" in secret else None
        headers = {"User-Agent": "chordwise"}
        self._http = httpx.Client(
            auth=auth, headers=headers, timeout=_TIMEOUT_S, follow_redirects=True, max_redirects=5, trust_env=False
        )

    def entries(self) -> Iterator[Entry]:
        """Yield every page once."""
        seen: set[bytes] = set()  # hashes: addresses of a million pages would take ten times as much
        for url, version in self._named_by_sitemaps() if self._is_sitemap else self._linked():
            key = hashlib.blake2b(url.encode("utf-8", "replace"), digest_size=12).digest()
            if key in seen or len(seen) > MOST_FILES:
                continue
            seen.add(key)
            if not url.startswith(self._base):
                yield Entry(path=url, skipped="it is on another host")
                continue
            yield Entry(path=url.removeprefix(self._base) or "index.html", **self._about(url, version))

    def _named_by_sitemaps(self) -> Iterator[tuple[str, str | None]]:
        waiting, asked = [self._url], set[str]()
        while waiting and len(asked) < _MOST_LISTS:
            url = waiting.pop()
            if url in asked or not url.startswith(self._base):
                continue
            asked.add(url)
            try:
                root = fromstring(self._list(url))
            except ParseError:
                raise FetchFailed("a sitemap is not valid XML") from None
            for entry in root:
                parts = {part.tag.rpartition("}")[2]: (part.text or "").strip() for part in entry}
                if not parts.get("loc"):
                    continue
                if entry.tag.rpartition("}")[2] == "sitemap":
                    waiting.append(parts["loc"])
                else:
                    yield urldefrag(parts["loc"]).url, parts.get("lastmod") or None

    def _linked(self) -> Iterator[tuple[str, str | None]]:
        """Yield what the index and those of the folders below it link to."""
        waiting, asked = [self._base], set[str]()
        while waiting:
            folder = waiting.pop()
            if folder in asked:
                continue
            if len(asked) >= _MOST_LISTS:
                raise FetchFailed(f"there are more than {_MOST_LISTS} folders")
            asked.add(folder)
            for link in _links(self._list(folder).decode("utf-8", "replace")):
                url = urldefrag(urljoin(folder, link)).url
                if not url.startswith(self._base) or urlsplit(url).query:
                    continue
                if url.endswith("/"):
                    waiting.append(url)
                else:
                    yield url, None

    def _about(self, url: str, version: str | None) -> dict[str, Any]:
        """Return the version and the size of a page: what the sitemap says, else what the server does."""
        if version is not None:
            return {"version": version}
        with _translated():
            headers = self._http.head(url).headers
        size = headers.get("content-length", "")
        known = headers.get("etag") or headers.get("last-modified")
        return {"version": known, "size": int(size) if size.isdecimal() else None}

    def _list(self, url: str) -> bytes:
        body = self._get(url, _MOST_BYTES)
        if body[:2] == b"\x1f\x8b":
            body = zlib.decompressobj(_GZIP).decompress(body, _MOST_BYTES)
        return body

    def read(self, path: str, most_bytes: int) -> bytes:
        """Return the content of a page."""
        return self._get(self._base + ("" if path == "index.html" else path), most_bytes)

    def _get(self, url: str, most_bytes: int) -> bytes:
        body = bytearray()
        with _translated(), self._http.stream("GET", url) as answer:
            if answer.status_code in (404, 410):
                raise FileNotFoundError(url)
            if answer.status_code in (408, 425, 429) or answer.status_code >= 500:
                raise FetchUnavailable(f"the server answers {answer.status_code}")
            if answer.status_code >= 400:
                raise FetchFailed(f"the server answers {answer.status_code}")
            for piece in answer.iter_bytes(2**16):
                body += piece
                if len(body) > most_bytes:
                    break
        return bytes(body)


class _Links(HTMLParser):
    """Collects the targets of links."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a link."""
        if tag == "a":
            self.found += [value for name, value in attrs if name == "href" and value]


def _links(page: str) -> list[str]:
    links = _Links()
    links.feed(page)
    return links.found


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except httpx.InvalidURL:
        raise FetchFailed("a link is no address") from None
    except (httpx.TransportError, httpx.TooManyRedirects) as error:
        raise FetchUnavailable(f"the server does not answer: {type(error).__name__}") from error
