"""The tenants' dictionaries, analysed once and cached in the process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog
from sqlalchemy import Connection, Engine

from pipeline.caches import RecentValues, RefreshingValue
from pipeline.database.unit_of_work import read_soon
from pipeline.errors import PipelineError
from pipeline.keyword.dictionary import EVERY_NAMESPACE, Lexicon
from pipeline.keyword.dictionary_store import Dictionaries
from pipeline.records import Namespace, TenantId

log = structlog.get_logger(__name__)

_FRESH_S = 3.0
_MOST = 256
_PATIENCE_S, _FIRST_S = 0.25, 0.5  # for a known dictionary, and for one that was never read
_NOTHING = Lexicon()


@dataclass(frozen=True, slots=True)
class _Dictionary:
    versions: tuple[tuple[str, int], ...]
    lexicon: Lexicon


_Key = tuple[TenantId, tuple[Namespace, ...]]


class Lexicons:
    """At most 256 dictionaries, by tenant and namespaces. A changed dictionary takes effect after three seconds; an
    unchanged one is not analysed again. While MySQL is unavailable the last one is used. Thread-safe."""

    def __init__(self, mysql: Engine, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._mysql = mysql
        self._clock = clock
        self._dictionaries: RecentValues[_Key, RefreshingValue[_Dictionary]] = RecentValues(_MOST)

    def get(self, tenant_id: TenantId, namespaces: Sequence[Namespace]) -> Lexicon:
        """Return the tenant's dictionary for these namespaces together. Raises Unavailable if it was never read."""
        key = (tenant_id, tuple(sorted(namespaces)))
        return self._dictionaries.get(key, lambda: self._dictionary(key)).get().lexicon

    def _dictionary(self, key: _Key) -> RefreshingValue[_Dictionary]:
        def read() -> _Dictionary:
            last = entry.last
            seconds = _FIRST_S if last is None else _PATIENCE_S
            return read_soon(self._mysql, lambda connection: _read(connection, key, last), seconds=seconds)

        def report(error: PipelineError) -> None:
            log.info("dictionary_not_read", tenant_id=key[0], code=error.code)

        entry: RefreshingValue[_Dictionary] = RefreshingValue(
            read, fresh_s=_FRESH_S, on_failure=report, clock=self._clock
        )
        return entry


def _read(connection: Connection, key: _Key, last: _Dictionary | None) -> _Dictionary:
    """Read the versions, and the dictionary only if they differ from the last ones."""
    tenant_id, namespaces = key
    store, wanted = Dictionaries(connection, tenant_id), [EVERY_NAMESPACE, *namespaces]
    versions = tuple(sorted(store.versions(wanted).items()))
    if last is not None and last.versions == versions:
        return last
    lexicon = Lexicon.of(store.load(wanted).values()) if versions else _NOTHING
    return _Dictionary(versions=versions, lexicon=lexicon)
