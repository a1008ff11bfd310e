"""The rerankers of an installation, each made when it is first asked for."""

from __future__ import annotations

import threading

from pipeline.models.factory import make_reranker
from pipeline.models.port import Reranker
from pipeline.settings import RerankProvider, Settings


class Rerankers:
    """One of each kind for the whole process. Safe to share between threads; not across a fork."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._made: dict[RerankProvider, Reranker] = {}
        self._lock = threading.Lock()

    def of(self, provider: RerankProvider) -> Reranker:
        """The reranker of this kind, or the local one where it is not configured. Raises Misconfigured."""
        found = self._made.get(provider)
        if found is None:
            with self._lock:
                found = self._made.setdefault(provider, make_reranker(self._settings, provider))
        return found

    def close(self) -> None:
        """Let go of every connection that was made."""
        for reranker in self._made.values():
            reranker.close()
