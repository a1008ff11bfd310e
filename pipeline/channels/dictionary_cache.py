"""The dictionaries of tenants, made ready for reading queries and kept in the process for some seconds."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import structlog
from sqlalchemy import Connection, Engine

from pipeline.database.unit_of_work import read_soon
from pipeline.errors import Unavailable
from pipeline.keyword.dictionary import Lexicon
from pipeline.keyword.dictionary_store import EVERY_NAMESPACE, Dictionaries
from pipeline.records import Namespace, TenantId

log = structlog.get_logger(__name__)

_FRESH_S = 3.0
_MOST = 256
_PATIENCE_S, _FIRST_S = 0.25, 0.5  # for a dictionary that is known, and for one that never was read
_NOTHING = Lexicon()


@dataclass(frozen=True, slots=True)
class _Known:
    versions: tuple[tuple[str, int], ...]
    lexicon: Lexicon
    asked_at: float


class Lexicons:
    """At most 256 of them, by tenant and namespaces. A changed dictionary holds after three seconds; one that was not
    changed is not analysed again. While MySQL is away the last known one holds. Safe between threads."""

    def __init__(self, mysql: Engine) -> None:
        self._mysql = mysql
        self._known: OrderedDict[tuple[TenantId, tuple[Namespace, ...]], _Known] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, tenant_id: TenantId, namespaces: Sequence[Namespace]) -> Lexicon:
        """Return what the tenant says of words, for these namespaces together. Raises Unavailable if it was never read."""
        key = (tenant_id, tuple(sorted(namespaces)))
        with self._lock:
            known = self._known.get(key)
        if known is not None and time.monotonic() - known.asked_at < _FRESH_S:
            return known.lexicon

        def read(connection: Connection) -> _Known:
            return _read(Dictionaries(connection, tenant_id), [EVERY_NAMESPACE, *namespaces], known)

        try:
            found = read_soon(self._mysql, read, seconds=_FIRST_S if known is None else _PATIENCE_S)
        except Unavailable as error:
            if known is None:
                raise
            log.info("dictionary_not_read", tenant_id=tenant_id, code=error.code)
            return known.lexicon
        with self._lock:
            self._known[key] = found
            self._known.move_to_end(key)
            while len(self._known) > _MOST:
                self._known.popitem(last=False)
        return found.lexicon


def _read(store: Dictionaries, wanted: Sequence[Namespace], known: _Known | None) -> _Known:
    versions = tuple(sorted(store.versions(wanted).items()))
    if known is not None and known.versions == versions:
        lexicon = known.lexicon
    else:
        lexicon = Lexicon.of(store.load(wanted).values()) if versions else _NOTHING
    return _Known(versions=versions, lexicon=lexicon, asked_at=time.monotonic())
