"""The few most recent results of something costly, kept in the process."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


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
        self._keep({key: value})
        return value

    def forget(self, key: Hashable) -> None:
        """Leave out the value of ``key``."""
        with self._lock:
            self._values.pop(key, None)

    def get_many(self, keys: Sequence[K], make: Callable[[Sequence[K]], Iterable[T]]) -> list[T]:
        """The values of ``keys``, in order; those that are not here are made in one call, in the order they are given."""
        with self._lock:
            found = {key: self._values[key] for key in keys if key in self._values}
            for key in found:
                self._values.move_to_end(key)
        missing = [key for key in dict.fromkeys(keys) if key not in found]
        if missing:
            made = dict(zip(missing, make(missing), strict=True))
            self._keep(made)
            found |= made
        return [found[key] for key in keys]

    def _keep(self, values: Mapping[Any, T]) -> None:
        with self._lock:
            self._values.update(values)
            while len(self._values) > self._size:
                self._values.popitem(last=False)

    def put(self, key: Hashable, value: T) -> None:
        """Keep a value that was made elsewhere."""
        self.get(key, lambda: value)

    def __contains__(self, key: Hashable) -> bool:
        with self._lock:
            return key in self._values
