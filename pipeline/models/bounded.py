"""Calls that end when they should, whatever the network underneath does."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import Final, TypeVar

from pipeline.errors import RerankerUnavailable

Result = TypeVar("Result")

_GRACE_S: Final = 0.1  # for a call that ends itself at the same moment, with a better reason


def bounded(call: Callable[[], Result], *, seconds: float, late: str) -> Result:
    """Return or raise what ``call`` does; RerankerUnavailable, saying ``late``, when it does not end in time and is
    left alone. Needed because looking up names and trickling headers have no limit of their own."""
    pool = ThreadPoolExecutor(1, thread_name_prefix="rerank")
    try:
        reply = pool.submit(copy_context().run, call)
        if wait([reply], timeout=seconds + _GRACE_S).not_done:
            raise RerankerUnavailable(late)
        return reply.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
