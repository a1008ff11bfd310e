"""Threads that wait for external servers, and a limit on one tenant's share of them."""

from __future__ import annotations

import contextvars
import threading
from collections import Counter
from collections.abc import Callable

from pipeline.deadline import Deadline
from pipeline.records import TenantId

PLACES = 16  # documents that one process fetches at a time; the threads mostly wait
_MOST_OF_ONE = 12  # of these for one tenant: others always get some, however slow its servers are


class FetchThreads:
    """Count running fetches and run them in threads that end with the process; leases recover what they leave."""

    def __init__(self) -> None:
        self._taken: Counter[TenantId] = Counter()
        self._running: set[threading.Thread] = set()
        self._lock = threading.Lock()

    def room(self, tenant_id: TenantId) -> int:
        """Return how many more documents of the tenant may be fetched now."""
        with self._lock:
            return max(0, min(PLACES - self._taken.total(), _MOST_OF_ONE - self._taken[tenant_id]))

    def take(self, tenant_id: TenantId, count: int) -> None:
        """Occupy threads; the caller must wait when there are too few."""
        with self._lock:
            self._taken[tenant_id] += count

    def give_back(self, tenant_id: TenantId, count: int) -> None:
        """Release threads."""
        with self._lock:
            self._taken[tenant_id] -= count
            if not self._taken[tenant_id]:
                del self._taken[tenant_id]

    def run(self, work: Callable[[], None]) -> None:
        """Call ``work`` in a thread, with the caller's context, so that it logs under the same ids."""
        context = contextvars.copy_context()

        def body() -> None:
            try:
                context.run(work)
            finally:
                with self._lock:
                    self._running.discard(thread)

        thread = threading.Thread(target=body, name="fetch", daemon=True)
        with self._lock:
            self._running.add(thread)
            thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Wait for all running calls. Return False if they have not ended within ``timeout_s``."""
        deadline = Deadline.after(timeout_s)
        while True:
            with self._lock:
                thread = next(iter(self._running), None)
            if thread is None:
                return True
            thread.join(deadline.left_s())
            if deadline.has_passed:
                return False

    def close(self) -> None:
        """Give calls that are about to end a moment to do so."""
        self.wait(1.0)
