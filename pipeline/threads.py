"""Threads of a process: those in which calls run that another thread or an event loop waits for, and delayed calls."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class CallThreads:
    """At most ``most`` daemon threads, made when none is idle and reused. A hanging call keeps its thread, but neither its
    caller nor the end of the process. A forked child begins with none."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._count = 0

    def start(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Start ``call`` with the caller's context. The caller sets the time limit and abandons a hanging call. Raises
        RuntimeError if the system starts no thread."""
        future: Future[T] = Future()
        self._add_thread()
        self._calls.put((future, partial(copy_context().run, partial(call, *args, **kwargs))))
        return future

    def _add_thread(self) -> None:
        with self._lock:
            if not self._idle.acquire(blocking=False) and self._count < self._most:
                threading.Thread(target=self._serve, name=f"call-{self._count}", daemon=True).start()
                self._count += 1

    def _serve(self) -> None:
        calls, idle = self._calls, self._idle
        while True:
            _carry_out(*calls.get())
            idle.release()


def _carry_out(future: Future[T], call: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
        future.set_exception(error)
    else:
        future.set_result(result)
    finally:
        del future, call  # an error's traceback holds this frame


# Calls of channels, stores, models and name servers. A call may start others and wait for them within its own time; the
# callers bound their number: concurrent tasks, the sources of a query, places for look-ups.
_CALLS: Final = CallThreads(256)
start_call = _CALLS.start


class DelayedCall:
    """Makes ``call`` in a thread ``seconds`` after it was requested, once for all requests until then."""

    def __init__(self, call: Callable[[], object], *, seconds: float) -> None:
        self._call, self._seconds = call, seconds
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()

    def request(self) -> None:
        """Have the call made, unless it is already due."""
        with self._lock:
            if self._timer is None:
                self._timer = threading.Timer(self._seconds, self._make)
                self._timer.daemon = True
                self._timer.start()

    def cancel(self) -> None:
        """Do not make the call that is due, if any."""
        with self._lock:
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _make(self) -> None:
        with self._lock:
            self._timer = None
        self._call()
