"""One POST to a checked address, within a deadline."""

import asyncio
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http.cookiejar import DefaultCookiePolicy
from types import TracebackType
from typing import Self

import httpx

from pipeline.deadline import Deadline
from pipeline.outbound.addresses import Network, is_address, may_connect
from pipeline.outbound.connect_client import REFUSED_AFTER_S, start_look_up, within

CONNECT_S = 5.0
TOTAL_S = 15.0  # from looking up the name to the head of the answer
_NAME_S = 5.0  # to look up a name while its tenant waits
LONGEST_URL = 2048


class NotAllowed(Exception):
    """The target may not be called; ``str(error)`` says why, and ``code`` is stable."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def sentence(self) -> str:
        """Return the reason as a sentence about the URL."""
        return f"The URL {self}." if self.code == "invalid_url" else f"The URL cannot be used: {self}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The outcome of a call: a status, or the error that prevented one. ``error`` is set for every failed call."""

    status: int | None = None
    error: str | None = None
    retry_after_s: float | None = None


def checked_url(url: str) -> httpx.URL:
    """Return the parsed address of an endpoint. Raises NotAllowed unless it is a plain http or https URL."""
    try:
        address = httpx.URL(url)
    except (httpx.InvalidURL, UnicodeError):
        raise NotAllowed("invalid_url", "is not a URL") from None
    if address.scheme not in ("http", "https") or not address.host or len(url) > LONGEST_URL:
        raise NotAllowed("invalid_url", f"must be an http or https URL of at most {LONGEST_URL} characters")
    if address.userinfo or address.fragment or not url.isprintable() or " " in url:
        raise NotAllowed("invalid_url", "must not hold a user, a password, a fragment or white space")
    return address


def resolve(url: httpx.URL, *, permitted: Sequence[Network]) -> list[str]:
    """Return the connectable addresses of a URL's host in order. Blocking. Raises NotAllowed, alike for a name without
    address and a private one, so that callers cannot probe the network's names."""
    return resolve_host(url.raw_host.decode("ascii"), port=url.port or 0, permitted=permitted)


def resolve_host(host: str, *, port: int = 0, permitted: Sequence[Network]) -> list[str]:
    """Return the connectable addresses of a host, as `resolve` does. Raises NotAllowed."""
    try:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise _not_allowed(host) from None
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
    allowed = [address for address in addresses if may_connect(address, permitted=permitted)]
    if not allowed:
        raise _not_allowed(host)
    return allowed


def require_host(host: str, *, permitted: Sequence[Network], within_s: float = _NAME_S) -> None:
    """Raise NotAllowed for a host without a connectable address, a private one like one that does not exist, and after the
    same time; also for one whose addresses are not found ``within_s``. Blocking."""
    refusal = Deadline.after(REFUSED_AFTER_S)
    try:
        within(lambda: resolve_host(host, permitted=permitted), seconds=within_s)
    except TimeoutError:
        raise _not_allowed(host) from None
    except NotAllowed:
        if not is_address(host):
            time.sleep(refusal.left_s())
        raise


def _not_allowed(host: str) -> NotAllowed:
    return NotAllowed("address_not_allowed", f"the host {host} has no address that this installation may call")


class Poster:
    """Posts to endpoints on one event loop; use it with ``async with``. It connects to the address it looked up and
    checked; without redirects, proxies, cookies, or reading bodies."""

    def __init__(
        self, *, permitted: Sequence[Network] = (), connect_s: float = CONNECT_S, total_s: float = TOTAL_S
    ) -> None:
        self._permitted = tuple(permitted)
        self._total_s = total_s
        # No connection is kept: one to the same address may belong to another name.
        self._http = httpx.AsyncClient(
            timeout=httpx.Timeout(total_s, connect=connect_s),
            limits=httpx.Limits(max_keepalive_connections=0),
            trust_env=False,
            follow_redirects=False,
        )
        # No cookies: they are stored by address, and one tenant's would go to another's endpoint there.
        self._http.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Post ``body``. Never raises because of the other side."""
        try:
            async with asyncio.timeout(self._total_s):
                return await self._post(checked_url(url), headers, body)
        except NotAllowed as error:
            return Reply(error=str(error))
        except TimeoutError:
            return Reply(error=f"no answer within {self._total_s:g} s")
        except httpx.TimeoutException as error:
            return Reply(error=f"no answer in time: {type(error).__name__}")
        except httpx.HTTPError as error:
            return Reply(error=f"no answer: {type(error).__name__}")

    async def _post(self, url: httpx.URL, headers: Mapping[str, str], body: bytes) -> Reply:
        loop = asyncio.get_running_loop()
        refused_at = loop.time() + REFUSED_AFTER_S
        try:
            look_up = start_look_up(partial(resolve, url, permitted=self._permitted), patience=Deadline.after(0))
            addresses = await asyncio.wrap_future(look_up)
        except NotAllowed:
            await asyncio.sleep(0 if is_address(url.host) else refused_at - loop.time())
            raise
        request = self._http.build_request(
            "POST",
            url.copy_with(host=addresses[0]),
            content=body,
            headers={**headers, "Host": url.netloc.decode("ascii"), "Content-Type": "application/json"},
            extensions={"sni_hostname": url.raw_host.decode("ascii")},  # the certificate must match the name
        )
        response = await self._http.send(request, stream=True)
        try:
            return _reply(response)
        finally:
            await response.aclose()


def _reply(response: httpx.Response) -> Reply:
    status = response.status_code
    seconds = response.headers.get("retry-after", "").strip()
    retry_after_s = float(seconds[:9]) if seconds.isascii() and seconds.isdigit() else None
    if 200 <= status < 300:
        return Reply(status=status)
    if 300 <= status < 400:
        return Reply(status=status, error=f"answered {status}; redirects are not followed")
    return Reply(status=status, error=f"answered {status}", retry_after_s=retry_after_s)
