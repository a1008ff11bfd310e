"""Connections: as many as the system allows, and none that is held open by saying nothing."""

from __future__ import annotations

import asyncio
import resource

import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

log = structlog.get_logger(__name__)

HEAD_S = 30.0  # from the beginning of a request to the end of its headers, and until the first one begins


def allow_many_connections() -> None:
    """Raise the number of open files to what the system permits: every client that waits is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError) as error:
            log.info("open_files_not_raised", limit=soft, error=type(error).__name__)


class PatientProtocol(HttpToolsProtocol):
    """Uvicorn's own, but who connects and does not ask, or asks a letter at a time, is let go. Between requests of one
    connection, Uvicorn's keep-alive timeout holds."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody has connected."""
        super().connection_made(transport)
        self._wait_for_head()

    def on_message_begin(self) -> None:
        """The first letter of a request."""
        super().on_message_begin()
        self._wait_for_head()

    def on_headers_complete(self) -> None:
        """All of its headers are there."""
        self._stop_waiting()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        self._stop_waiting()
        self._deadline = self.loop.call_later(HEAD_S, self._let_go)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _let_go(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
