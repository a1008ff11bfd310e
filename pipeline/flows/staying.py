"""Stay the owner of work while something slow is under way."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import structlog

from pipeline.errors import Unavailable

T = TypeVar("T")

log = structlog.get_logger(__name__)


def while_renewing(call: Callable[[threading.Event], T], *, renew: Callable[[], None], every_s: float) -> T:
    """Run ``call`` aside and ``renew`` every so often until it has ended; give or raise what it does.

    Where ``renew`` raises (the work is somebody else's now), the event that ``call`` was given is set, and the error
    goes to the caller without waiting for it. A database that is away is no reason yet: the lease may outlast it.
    """
    stop = threading.Event()
    pool = ThreadPoolExecutor(1, thread_name_prefix="slow")
    under_way = pool.submit(contextvars.copy_context().run, call, stop)
    try:
        while True:
            try:
                return under_way.result(timeout=every_s)
            except TimeoutError:
                if under_way.done():  # it was the call's own
                    raise
            try:
                renew()
            except Unavailable as error:
                log.warning("lease_not_renewed", code=error.code)
    finally:
        stop.set()
        pool.shutdown(wait=False, cancel_futures=True)
