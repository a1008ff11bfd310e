"""Retry calls of services: waits with jitter, Retry-After headers, and time limits for calls without one."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, TypeVar

import tenacity

from pipeline.deadline import Deadline
from pipeline.errors import RateLimited, Unavailable

Result = TypeVar("Result")

FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 20.0

# If asked to wait longer than this, return the work instead of blocking: its next attempt can be scheduled.
LONGEST_RETRY_AFTER_S: Final = 60.0
_GRACE_S: Final = 0.1  # for a call that ends itself at the same moment, with a better error


def retry_after_s(headers: Mapping[str, str], *, now: datetime | None = None) -> float | None:
    """Return the seconds in ``retry-after-ms`` or ``Retry-After`` (seconds or HTTP date); None without a valid one."""
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if value.isascii() and value.replace(".", "", 1).isdigit():
            return float(value) / scale
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    if moment.tzinfo is None:  # "-0000": the date is UTC, as HTTP dates are
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())


def keep_trying(
    attempt: Callable[[], Result],
    *,
    retries: int,
    deadline: Deadline,
    stop: threading.Event | None = None,
    first_wait_s: float = FIRST_WAIT_S,
) -> Result:
    """Call ``attempt``, up to ``retries`` times more while it raises Unavailable, waiting 0 to ``first_wait_s`` doubled
    each time (at most 20 s), or the error's ``retry_after_s`` and a tenth. Raises the last error when the wait would
    outlast ``deadline`` or a minute or ``stop`` is set, and RateLimited after waiting."""
    stopped = stop or threading.Event()

    def wait_s(state: tenacity.RetryCallState) -> float:
        requested_s = _asked_wait(state)
        if requested_s is None:
            return random.uniform(0.0, min(LONGEST_WAIT_S, first_wait_s * 2 ** (state.attempt_number - 1)))
        return requested_s * random.uniform(1.0, 1.1)

    def is_enough(state: tenacity.RetryCallState) -> bool:
        return (
            stopped.is_set()
            or isinstance(state.outcome.exception() if state.outcome else None, RateLimited)
            or state.attempt_number > retries
            or (_asked_wait(state) or 0.0) > LONGEST_RETRY_AFTER_S
            or state.upcoming_sleep >= deadline.left_s()
        )

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(Unavailable),
        wait=wait_s,
        stop=is_enough,
        sleep=tenacity.sleep_using_event(stopped),
        reraise=True,
    )(attempt)


def _asked_wait(state: tenacity.RetryCallState) -> float | None:
    error = state.outcome.exception() if state.outcome else None
    return error.retry_after_s if isinstance(error, Unavailable) else None


def bounded(call: Callable[[], Result], *, seconds: float, late: Unavailable) -> Result:
    """Return or raise the outcome of ``call``; raise ``late`` if it does not end in time, in which case it is
    abandoned. Needed because name resolution and trickling headers have no limit of their own."""
    pool = ThreadPoolExecutor(1, thread_name_prefix="model")
    try:
        reply = pool.submit(copy_context().run, call)
        if wait([reply], timeout=seconds + _GRACE_S).not_done:
            raise late
        return reply.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
