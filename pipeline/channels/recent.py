"""The few most recent results of something costly, kept in the process."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """At most ``size`` values by key; the one unused for longest goes first. Safe between threads. Two threads that ask
    for the same missing key at once may both make it."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of ``key``, made now if it is not here."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = make()
        with self._lock:
            self._values[key] = value
            while len(self._values) > self._size:
                self._values.popitem(last=False)
        return value

    def put(self, key: Hashable, value: T) -> None:
        """Keep a value that was made elsewhere."""
        self.get(key, lambda: value)

    def __contains__(self, key: Hashable) -> bool:
        with self._lock:
            return key in self._values
