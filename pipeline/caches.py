"""Values that a process caches: one that is refreshed in place, the most recently used of many, and all of many texts."""

import math
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future, wait
from typing import Generic, TypeVar

import structlog
from cachetools import Cache, LRUCache, TTLCache

from pipeline.errors import PipelineError
from pipeline.threads import start_call

log = structlog.get_logger(__name__)

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class RefreshingValue(Generic[T]):
    """A value that is read again when it is older than ``fresh_s`` seconds; safe between threads.

    One caller refreshes at a time; concurrent callers get the cached value, and only the very first call blocks, where
    callers share the outcome of one reading. When a refresh raises a PipelineError the old value stays for another
    ``fresh_s`` seconds. The lock is never held while reading.
    """

    def __init__(
        self,
        read: Callable[[], T],
        *,
        fresh_s: float,
        initial: tuple[T] | None = None,
        patience_s: float | None = None,
        on_failure: Callable[[PipelineError], object] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Keep the parameters of refreshing.

        ``initial``: a value until the first reading ends, so that no call blocks. ``patience_s``: refresh in another thread
        and wait for it at most that long, after a failure not at all; None refreshes in the caller's thread. ``on_failure``:
        called when a reading failed and the old value stays."""
        self._read = read
        self._fresh_s, self._patience_s = fresh_s, patience_s
        self._on_failure = on_failure
        self._clock = clock
        self._held: tuple[T] | None = initial
        self._next_at = -math.inf
        self._is_away = False  # the last refresh failed, or hangs
        self._refresh: Future[T] | None = None
        self._lock = threading.Lock()

    @property
    def last(self) -> T | None:
        """The last value, however old; None if there is none."""
        return self._held[0] if self._held else None

    def get(self, *, patient: bool = True) -> T:
        """Return the value, refreshed if it is due. Not ``patient``: do not wait for a thread that refreshes it. Raises
        the error of the reading if there is no value, or if the old one is too old."""
        held, moment = self._held, self._clock()
        if held and moment < self._next_at:
            return held[0]
        refresh, is_mine = self._begin()
        if not held:
            if is_mine:
                self._carry_out(refresh)
            return refresh.result()
        if not is_mine:
            return held[0]
        if self._patience_s is None:
            self._carry_out(refresh)
        else:
            self._carry_out_aside(refresh)
            if patient and not self._is_away:
                self._is_away = bool(wait([refresh], timeout=self._patience_s).not_done)
        return self._outcome(refresh, held)

    def refresh(self) -> T:
        """Read the value now in this thread, after any refresh under way. Raises as `get`."""
        while True:
            refresh, is_mine = self._begin()
            if is_mine:
                break
            wait([refresh])
        held = self._held
        self._carry_out(refresh)
        return self._outcome(refresh, held)

    def put(self, value: T) -> None:
        """Replace the value by one that is known from elsewhere. The next refresh stays due at its time."""
        self._held = (value,)

    def _outcome(self, refresh: Future[T], held: tuple[T] | None) -> T:
        """Return the new value, or the old one if the refresh failed or still runs. Raises its error if it is a bug."""
        if held and (not refresh.done() or isinstance(refresh.exception(), PipelineError)):
            return held[0]
        return refresh.result()

    def _begin(self) -> tuple[Future[T], bool]:
        """Return the refresh under way, and whether the caller has to carry it out."""
        with self._lock:
            if self._refresh is not None:
                return self._refresh, False
            self._refresh = Future()
            return self._refresh, True

    def _carry_out(self, refresh: Future[T]) -> None:
        began = self._clock()
        try:
            value = self._read()
        except BaseException as error:
            self._is_away = True
            self._next_at = self._clock() + self._fresh_s
            self._end(refresh).set_exception(error)
            if self._held and isinstance(error, PipelineError):
                self._on_failure(error)
            if not isinstance(error, Exception):
                raise
        else:
            self._held, self._next_at = (value,), began + self._fresh_s
            self._is_away = False
            self._end(refresh).set_result(value)

    def _carry_out_aside(self, refresh: Future[T]) -> None:
        def carry_out() -> None:
            self._carry_out(refresh)
            if not isinstance(error := refresh.exception(), PipelineError | None):
                log.error("refresh_bug", exc_info=error)

        try:
            start_call(carry_out)
        except RuntimeError as error:  # no thread could be started
            self._end(refresh).set_exception(error)

    def _end(self, refresh: Future[T]) -> Future[T]:
        with self._lock:
            self._refresh = None
        return refresh


class RecentValues(Generic[K, T]):
    """At most ``size`` values by key, the most recently used ones, for at most ``ttl_s`` seconds; safe between threads.
    The lock is not held while a value is made, so two threads that miss the same key may both make it."""

    def __init__(self, size: int, *, ttl_s: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._values: Cache[K, T] = LRUCache(size) if ttl_s is None else TTLCache(size, ttl_s, timer=clock)
        self._lock = threading.Lock()

    def get(self, key: K, make: Callable[[], T]) -> T:
        """Return the value of ``key``, made now if it is missing."""
        with self._lock:
            if key in self._values:
                return self._values[key]
        value = make()
        with self._lock:
            return self._values.setdefault(key, value)

    def get_many(self, keys: Sequence[K], make: Callable[[Sequence[K]], Iterable[T]]) -> list[T]:
        """Return the values of ``keys``, in order. Missing ones are made in one call, in the order of ``keys``."""
        with self._lock:
            present = {key: self._values[key] for key in keys if key in self._values}
        missing = [key for key in dict.fromkeys(keys) if key not in present]
        if missing:
            made = dict(zip(missing, make(missing), strict=True))
            with self._lock:
                self._values.update(made)
            present |= made
        return [present[key] for key in keys]

    def put(self, key: K, value: T) -> None:
        """Cache a value that was made elsewhere, unless there is one."""
        with self._lock:
            self._values.setdefault(key, value)

    def forget(self, key: K) -> None:
        """Drop the value of ``key``."""
        with self._lock:
            self._values.pop(key, None)

    def __contains__(self, key: K) -> bool:
        with self._lock:
            return key in self._values


class SelfFillingDict(dict[str, T]):
    """Values by text, made at the first look-up, so that a cached one costs no call. Cleared at ``most`` values; the values
    of texts of more than ``longest`` characters, which hardly repeat, are not cached."""

    def __init__(self, make: Callable[[str], T], *, most: int, longest: float = math.inf) -> None:
        super().__init__()
        self._make, self._most, self._longest = make, most, longest

    def __missing__(self, text: str) -> T:
        value = self._make(text)
        if len(text) <= self._longest:
            if len(self) >= self._most:
                self.clear()
            self[text] = value
        return value
