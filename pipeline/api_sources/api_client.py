"""Call a business API once, within bounds on time and size."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property

import httpcore
import httpx

from pipeline.api_sources.api_request import ApiRequest
from pipeline.deadline import Deadline
from pipeline.errors import (
    ApiSourceFailed,
    ApiSourceTimedOut,
    ApiSourceUnavailable,
    DocumentTooLarge,
    FetchFailed,
    FetchRefused,
    FetchUnavailable,
)
from pipeline.outbound.addresses import Network, is_within
from pipeline.outbound.connect_client import GuardedBackend, Resolve, resolved
from pipeline.outbound.fetch_client import ENCODINGS, bad_certificate, read_body, status_sentence

_TRY_LATER = frozenset({408, 425, 429})


class ApiCaller:
    """Calls business APIs; thread-safe. Connects only to checked addresses of the host, public or permitted, and
    without TLS only to permitted ones. No redirects, proxies, cookies or shared connections."""

    def __init__(
        self,
        *,
        permitted: Iterable[Network] = (),
        resolve: Resolve | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """Set the networks that may be called although not public, and replacements of the system's own means."""
        self._permitted = tuple(permitted)
        self._resolve = resolve or resolved
        self._given_ssl_context = ssl_context

    def call(self, request: ApiRequest, *, headers: Mapping[str, str], timeout_s: float, max_bytes: int) -> bytes:
        """Return the answer's body. Raises ApiSourceUnavailable for temporary failures, else ApiSourceFailed."""
        address = request.address
        with _translated(address.host, timeout_s, max_bytes):
            resolve = self._resolve if address.scheme == "https" else self._permitted_only
            backend = GuardedBackend(Deadline.after(timeout_s), permitted=self._permitted, resolve=resolve)
            with (
                httpcore.ConnectionPool(
                    ssl_context=self._ssl_context if address.scheme == "https" else None,
                    network_backend=backend,
                    max_connections=1,
                ) as pool,
                pool.stream(
                    request.method,
                    address.uri,
                    headers=_headers(request, headers),
                    content=request.body,
                ) as answer,
            ):
                received = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in answer.headers}
                _require_success(answer.status, address.host)
                return read_body(
                    answer.iter_stream(),
                    encoding=received.get("content-encoding"),
                    declared=received.get("content-length"),
                    max_bytes=max_bytes,
                )

    def _permitted_only(self, host: str, port: int) -> Sequence[str]:
        addresses: Sequence[str] = ()
        with suppress(FetchFailed, FetchUnavailable):
            addresses = self._resolve(host, port)
        if not addresses or not all(is_within(address, self._permitted) for address in addresses):
            raise FetchRefused(f"{host} is called over https only, because it is in no permitted network")
        return addresses

    @cached_property
    def _ssl_context(self) -> ssl.SSLContext:
        """Loading the authorities takes some hundredths of a second, so once."""
        return self._given_ssl_context or httpx.create_ssl_context()


def _headers(request: ApiRequest, headers: Mapping[str, str]) -> list[tuple[bytes | str, bytes | str]]:
    own: list[tuple[bytes | str, bytes | str]] = [
        ("Host", request.address.authority),
        ("Accept-Encoding", ", ".join(ENCODINGS)),
        ("User-Agent", "chordwise"),
        ("Connection", "close"),
    ]
    if not any(name.lower() == "accept" for name in headers):
        own.append(("Accept", "application/json"))
    if request.method == "POST":
        own.append(("Content-Length", str(len(request.body or b""))))
    if request.body is not None:
        own.append(("Content-Type", "application/json"))
    return [*own, *((name, value.encode("latin-1")) for name, value in headers.items())]


def _require_success(status: int, host: str) -> None:
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise ApiSourceFailed(f"{host} answered {status}; redirects are not followed")
    reason = status_sentence(host, status)
    if status in _TRY_LATER or status >= 500:
        raise ApiSourceUnavailable(reason)
    raise ApiSourceFailed(reason)


@contextmanager
def _translated(host: str, timeout_s: float, max_bytes: int) -> Iterator[None]:
    """Let no error of httpcore or of fetching documents past this module."""
    try:
        yield
    except httpcore.TimeoutException as error:
        raise ApiSourceTimedOut(f"{host} did not answer within {timeout_s:g} s") from error
    except DocumentTooLarge as error:
        raise ApiSourceFailed(f"{host} answered with more than {max_bytes} bytes") from error
    except FetchUnavailable as error:
        raise ApiSourceUnavailable(str(error)) from error
    except (FetchRefused, FetchFailed) as error:
        raise ApiSourceFailed(str(error)) from error
    except httpcore.ConnectError as error:
        if bad_certificate(error):
            raise ApiSourceFailed(f"the certificate of {host} is not valid") from error
        raise ApiSourceUnavailable(f"{host} could not be connected to") from error
    except (httpcore.LocalProtocolError, httpcore.UnsupportedProtocol) as error:
        raise ApiSourceFailed(f"{host} cannot be called like this") from error
    except (httpcore.NetworkError, httpcore.ProtocolError) as error:
        raise ApiSourceUnavailable(f"{host} broke off ({type(error).__name__})") from error
