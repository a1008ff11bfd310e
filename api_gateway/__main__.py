"""Run the gateway: `python -m api_gateway`. Exit code 0 after a requested shutdown, 1 with one sentence if it cannot
run."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import FrameType

import structlog
import uvicorn

from pipeline import garbage
from pipeline.errors import PipelineError, StoreMisconfigured
from pipeline.outages import tolerate_outage
from pipeline.settings import Settings, settings
from pipeline.telemetry import tracing
from pipeline.telemetry.logs import configure_logging

_FIRST_INHERITED = 3  # file descriptor; sd_listen_fds(3)
_SHUTDOWN_S = 20  # for requests that are being answered; those that only wait are let go at once


class _Server(uvicorn.Server):
    """Uvicorn, but the first signal ends all long polls and streams at once instead of waiting for them, and wakes the loop,
    which looks once a second instead of ten times."""

    def __init__(self, config: uvicorn.Config, release: Callable[[], None]) -> None:
        super().__init__(config)
        self._release = release
        self._wake: Callable[[], object] | None = None

    async def main_loop(self) -> None:
        ended = asyncio.Event()
        self._wake = partial(asyncio.get_running_loop().call_soon_threadsafe, ended.set)
        while not await self.on_tick(0):  # writes the header Date as well
            with suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), 1.0)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._release()
        if self._wake is not None:
            self._wake()


def _check_redis_and_broker(use: Settings) -> None:
    """Raise StoreMisconfigured if Redis or the broker rejects our credentials or permissions, or is unfit. Ignore an
    unreachable one: it may come back."""
    from pipeline.database.redis_checks import check_redis
    from workers.producer import check_broker

    for event, check in (("redis_not_checked", lambda: check_redis(use)), ("broker_not_checked", check_broker)):
        with tolerate_outage(structlog.get_logger(__name__).warning, event, but=(StoreMisconfigured,), detail=True):
            check()


def _inherited() -> list[socket.socket] | None:
    """Return the listening sockets that systemd hands over, None if there are none.

    They stay open while the gateway restarts: connections wait in the system's queue instead of being refused, and two
    gateways can share them.
    """
    count = os.environ.pop("LISTEN_FDS", "")
    if os.environ.pop("LISTEN_PID", "") != str(os.getpid()) or not count.isdigit():
        return None
    inherited = [socket.socket(fileno=_FIRST_INHERITED + number) for number in range(int(count))]
    for listener in inherited:
        listener.set_inheritable(False)
    return inherited or None


def main() -> int:
    """Serve until a signal ends it."""
    garbage.wait_with_collecting()  # a quarter of the start
    inherited = _inherited()
    # Uvicorn re-raises the signal that stopped it once it has shut down; this turns that into a normal exit too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        use = settings()
        configure_logging(use.log_level, service="gateway")
        # Imported late: these read the settings on import, and a wrong setting must be reported in one sentence.
        from api_gateway.app import create_app
        from api_gateway.gateway import SILENT_S
        from api_gateway.http.connections import KEEP_ALIVE_S, BoundedProtocol, allow_many_connections
        from pipeline.maintenance import migrate_schema
        from pipeline.resources import Resources
        from workers.dispatch import send_webhooks
        from workers.query_events import events

        resources = Resources(use, silent_s=SILENT_S, outbox_filled=send_webhooks, query_ended=events.show)
        tracing.check(use)
        migrate_schema.check_all(resources.mysql, resources.postgres, use)
        _check_redis_and_broker(use)
        app = create_app(use, resources)
    except PipelineError as error:
        print(f"gateway: {error}", file=sys.stderr)  # noqa: T201 - the one sentence an operator looks for
        return 1
    allow_many_connections()
    config = uvicorn.Config(
        app,
        host=use.gateway_host,
        port=use.gateway_port,
        loop="uvloop",
        http=BoundedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # Uvicorn would trust every local peer; the settings name the proxies
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=_SHUTDOWN_S,
    )
    server = _Server(config, app.state.gateway.release_soon)
    try:
        server.run(sockets=inherited)
    except KeyboardInterrupt:
        return 0
    except SystemExit as end:
        if end.code == 0:
            return 0
        print(f"gateway: it cannot serve on {use.gateway_host}:{use.gateway_port}; the log says why", file=sys.stderr)  # noqa: T201
        return 1
    return 0 if server.started else 1


if __name__ == "__main__":
    sys.exit(main())
