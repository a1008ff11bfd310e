"""Parsing of web addresses and of answer headers; makes no requests."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from ipaddress import AddressValueError, IPv6Address
from urllib.parse import quote, urljoin, urlsplit

from pipeline.errors import FetchRefused

LONGEST_ASKED_S = 600.0  # a service that asks for a longer pause is tried again after this: its cause may end earlier
LONGEST_URI = 2048  # characters, as many as the stores hold
_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[a-z0-9_]([a-z0-9_.-]{0,252})", re.ASCII)
_NEVER = re.compile(r"[\x00-\x20\x7f\\]")
_QUOTED_ALREADY = "%/:=&?~+!$,;'@()*[]"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebAddress:
    """The parts of an address: ``host`` in ASCII and without brackets, ``target`` the path with the query, quoted."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """Return host and port, without the default port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def uri(self) -> str:
        """Return the address as one string."""
        return f"{self.scheme}://{self.authority}{self.target}"


def web_address(uri: str) -> WebAddress:
    """Parse ``uri`` without its fragment. Raises FetchRefused if invalid, not http(s), or with user or password."""
    if len(uri) > LONGEST_URI:
        raise FetchRefused(f"the address has more than {LONGEST_URI} characters")
    try:
        parts = urlsplit(_without_spaces(uri))
        port = parts.port
    except ValueError:
        raise FetchRefused("the address cannot be read") from None
    scheme = parts.scheme.lower()
    if scheme not in _PORTS:
        raise FetchRefused(f"documents are fetched by http and https, not by {scheme[:32] or 'an address without one'}")
    if "@" in parts.netloc:
        raise FetchRefused("the address holds a user name or a password, which are not sent")
    if port == 0:
        raise FetchRefused("the address names port 0")
    target = quote(parts.path or "/", safe=_QUOTED_ALREADY)
    if parts.query:
        target += "?" + quote(parts.query, safe=_QUOTED_ALREADY)
    return WebAddress(scheme=scheme, host=_host(parts.hostname or ""), port=port or _PORTS[scheme], target=target)


def redirected(uri: str, location: str) -> WebAddress:
    """Return the target of a redirect from ``uri``. Raises FetchRefused as `web_address` does."""
    try:
        return web_address(urljoin(uri, location.strip()))
    except ValueError:
        raise FetchRefused("the address cannot be read") from None


def retry_after_s(
    headers: Mapping[str, str], *, now: datetime | None = None, most_s: float = LONGEST_ASKED_S
) -> float | None:
    """Return the seconds in ``retry-after-ms`` or ``Retry-After``, from 0 to ``most_s``; None without a valid one."""
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if value.isascii() and value.replace(".", "", 1).isdigit():
            return min(float(value) / scale, most_s)
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    if moment.tzinfo is None:  # "-0000": the date is UTC, as HTTP dates are
        moment = moment.replace(tzinfo=UTC)
    return min(max(0.0, (moment - (now or datetime.now(UTC))).total_seconds()), most_s)


def _without_spaces(uri: str) -> str:
    """Quote spaces; refuse control characters and backslashes, which programs read differently."""
    uri = uri.strip(" ").replace(" ", "%20")
    if _NEVER.search(uri):
        raise FetchRefused("the address holds a control character or a backslash")
    return uri


def _host(name: str) -> str:
    if ":" in name:
        try:
            return str(IPv6Address(name.replace("%", "/")))  # an interface's zone has a meaning on one host only
        except AddressValueError:
            raise FetchRefused("the address names no host") from None
    try:
        host = name if name.isascii() else name.encode("idna").decode("ascii")
    except UnicodeError:
        raise FetchRefused("the address names a host that cannot exist") from None
    if not _HOST.fullmatch(host.lower()):
        raise FetchRefused("the address names no host")
    return host.lower()
