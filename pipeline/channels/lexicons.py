"""The dictionaries of tenants, made ready for reading queries and kept in the process for some seconds."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from pipeline.core.dictionary import Lexicon
from pipeline.records import Namespace, TenantId
from pipeline.stores.dictionaries import EVERY_NAMESPACE, Dictionaries

_FRESH_S = 3.0
_MOST = 256
_NOTHING = Lexicon()


@dataclass(frozen=True, slots=True)
class _Known:
    versions: tuple[tuple[str, int], ...]
    lexicon: Lexicon
    asked_at: float


class Lexicons:
    """At most 256 of them, by tenant and namespaces. A changed dictionary holds after three seconds; one that was not
    changed is not analysed again. Safe between threads."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[TenantId, tuple[Namespace, ...]], _Known] = OrderedDict()
        self._lock = threading.Lock()

    def get(
        self, connection: Callable[[], Connection], tenant_id: TenantId, namespaces: Sequence[Namespace]
    ) -> Lexicon:
        """What the tenant says of words, for these namespaces together. ``connection`` gives one, where it is needed."""
        key = (tenant_id, tuple(sorted(namespaces)))
        with self._lock:
            known = self._known.get(key)
        if known is not None and time.monotonic() - known.asked_at < _FRESH_S:
            return known.lexicon
        store = Dictionaries(connection(), tenant_id)
        wanted = [EVERY_NAMESPACE, *namespaces]
        versions = tuple(sorted(store.versions(wanted).items()))
        if known is not None and known.versions == versions:
            lexicon = known.lexicon
        else:
            lexicon = Lexicon.of(store.load(wanted).values()) if versions else _NOTHING
        with self._lock:
            self._known[key] = _Known(versions=versions, lexicon=lexicon, asked_at=time.monotonic())
            self._known.move_to_end(key)
            while len(self._known) > _MOST:
                self._known.popitem(last=False)
        return lexicon
