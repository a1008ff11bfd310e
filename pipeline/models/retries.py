"""Retry calls of services: waits with jitter, Retry-After headers, and time limits for calls without one."""

import random
import threading
from collections.abc import Callable
from concurrent.futures import wait
from typing import Final, TypeVar

import tenacity

from pipeline.deadline import Deadline
from pipeline.errors import RateLimited, Silent, Unavailable
from pipeline.threads import start_call

Result = TypeVar("Result")

FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 20.0

# If asked to wait longer than this, return the work instead of blocking: its next attempt can be scheduled.
LONGEST_RETRY_AFTER_S: Final = 60.0
_RETRIES_OF_SILENCE: Final = 1
_GRACE_S: Final = 0.1  # for a call that ends itself at the same moment, with a better error


def keep_trying(
    attempt: Callable[[], Result],
    *,
    retries: int,
    deadline: Deadline,
    stop: threading.Event | None = None,
    first_wait_s: float = FIRST_WAIT_S,
) -> Result:
    """Call ``attempt``, and up to ``retries`` times again while it raises Unavailable; only once again after a Silent.

    The wait is drawn from 0 to ``first_wait_s``, doubled each time up to 20 s; or it is the error's ``retry_after_s`` and up to
    a tenth more. Raises the last error if the wait would end after ``deadline`` or take over a minute, or once ``stop`` is
    set. Raises RateLimited at once."""
    stopped = stop or threading.Event()

    def wait_s(state: tenacity.RetryCallState) -> float:
        requested_s = _asked_wait(state)
        if requested_s is None:
            return random.uniform(0.0, min(LONGEST_WAIT_S, first_wait_s * 2 ** (state.attempt_number - 1)))
        return requested_s * random.uniform(1.0, 1.1)

    def is_enough(state: tenacity.RetryCallState) -> bool:
        error = state.outcome.exception() if state.outcome else None
        return (
            stopped.is_set()
            or isinstance(error, RateLimited)
            or state.attempt_number > (min(retries, _RETRIES_OF_SILENCE) if isinstance(error, Silent) else retries)
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
    reply = start_call(call)
    if wait([reply], timeout=seconds + _GRACE_S).not_done:
        raise late
    return reply.result()
