"""The keyword indexes that this process holds in memory, so that it can answer from them without reading a chunk's row.

A copy is good for one stamp of its namespace (`stores.namespaces`), which another one follows in the very transaction
that changes what searches see. The stamp of a query is read when it is sent, or by who answers it, so nothing that had
changed before it was asked is answered from a copy. Copies are made aside, of namespaces that are asked about again and
again while nothing changes.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import structlog
from sqlalchemy import Engine

from pipeline.core.feedback import Terms
from pipeline.core.listing import Listing, listed
from pipeline.core.postings import Postings, PostingsBuilder, TooManyPlaces
from pipeline.errors import PipelineError
from pipeline.records import ChunkId, Namespace, TenantId
from pipeline.stores.keyword import KeywordIndex
from pipeline.stores.namespaces import Namespaces
from pipeline.stores.statistics import NamespaceStatistics
from pipeline.stores.work import reading

log = structlog.get_logger(__name__)

Key = tuple[TenantId, Namespace]
Outcome = Literal["loaded", "changed", "too_large", "failed"]

_BYTES_PER_TERM = 4.0  # of the arrays of a large namespace; one that has few chunks has more different terms for each
_BYTES_PER_CHUNK = 52
_ASKED = 3  # times at one stamp before a copy is made
_WITHIN_S = 60.0
# After a copy none is made for so many times the processor time that it took here (MariaDB takes less), and not for as
# long again as it took by the clock, since a server that is slow has other work.
_REST, _REST_BY_THE_CLOCK = 20.0, 2.0
_LEAST_REST_S = 5.0  # after a failure
_IDLE_S = 900.0  # a copy that nobody asks for goes
_MOST_NOTED = 1024
_ROWS_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class _Copy:
    stamp: str
    postings: Postings
    used_at: float
    listing: Listing | None = None  # where there is room

    @property
    def byte_count(self) -> int:
        return self.postings.byte_count + (0 if self.listing is None else self.listing.byte_count)


@dataclass(slots=True)
class _Asked:
    """How often a namespace was asked about at one stamp. ``refused``: no copy is to be made of it at that stamp."""

    stamp: str
    since: float
    times: int = 0
    refused: bool = False


def in_a_thread(work: Callable[[], None]) -> None:
    """Do it aside; the process does not wait for it when it ends."""
    threading.Thread(target=work, name="keyword-index", daemon=True).start()


class ResidentIndexes:
    """Copies of at most ``most_bytes`` together, by tenant and namespace; the one unused for longest goes first. 0: none.

    ``tell`` is called with what became of each attempt to make one; ``start`` runs it, in a thread of its own. Safe
    between threads; one copy is made at a time.
    """

    def __init__(
        self,
        mysql: Engine,
        *,
        most_bytes: int,
        tell: Callable[[Outcome], object] = lambda _: None,
        start: Callable[[Callable[[], None]], None] = in_a_thread,
        clock: Callable[[], float] = time.monotonic,
        rests: float = 1.0,
    ) -> None:
        """``rests``: how many times as long as usual it pauses after a copy was made."""
        self._mysql = mysql
        self._rests = rests
        self._most_bytes = most_bytes
        self._tell = tell
        self._start = start
        self._clock = clock
        self._lock = threading.Lock()
        self._copies: OrderedDict[Key, _Copy] = OrderedDict()
        self._asked: OrderedDict[Key, _Asked] = OrderedDict()
        self._is_making = False
        self._rests_until = float("-inf")

    @property
    def byte_count(self) -> int:
        """What all copies take."""
        with self._lock:
            return self._taken()

    def holds(self, tenant_id: TenantId, namespaces: Sequence[Namespace]) -> bool:
        """Whether there is a copy of each, good or not."""
        with self._lock:
            return all((tenant_id, namespace) in self._copies for namespace in namespaces)

    def of(
        self, tenant_id: TenantId, namespaces: Sequence[Namespace], stamps: Mapping[Namespace, str]
    ) -> dict[Namespace, Postings] | None:
        """A copy of each namespace at its stamp; None if one is missing."""
        found = self._found(tenant_id, namespaces, stamps)
        return None if found is None else {namespace: copy.postings for namespace, copy in found.items()}

    def terms(
        self,
        tenant_id: TenantId,
        namespaces: Sequence[Namespace],
        stamps: Mapping[Namespace, str],
        chunk_ids: Sequence[ChunkId],
    ) -> dict[ChunkId, Terms] | None:
        """The tokens of these chunks, by copies of all of these namespaces; None if something is missing."""
        found = self._found(tenant_id, namespaces, stamps) or {}
        copies = [(copy.postings, copy.listing) for copy in found.values() if copy.listing is not None]
        return listed(copies, chunk_ids) if copies else None

    def _found(
        self, tenant_id: TenantId, namespaces: Sequence[Namespace], stamps: Mapping[Namespace, str]
    ) -> dict[Namespace, _Copy] | None:
        found: dict[Namespace, _Copy] = {}
        moment = self._clock()
        with self._lock:
            for namespace in namespaces:
                key = (tenant_id, namespace)
                copy = self._copies.get(key)
                if copy is None or copy.stamp != stamps.get(namespace):
                    return None
                self._copies[key] = found[namespace] = replace(copy, used_at=moment)
                self._copies.move_to_end(key)
            self._let_go(moment)
        return found

    def note(self, tenant_id: TenantId, sizes: Mapping[Namespace, NamespaceStatistics]) -> None:
        """These namespaces are being asked about without a copy; their figures were just read. What was overtaken is
        let go of, and perhaps a copy is made for those who ask later."""
        if not self._most_bytes:
            return
        moment = self._clock()
        with self._lock:
            due = [(tenant_id, name) for name, size in sizes.items() if self._is_due((tenant_id, name), size, moment)]
            self._let_go(moment)
            if not due or self._is_making or moment < self._rests_until:
                return
            self._is_making = True
        self._start(lambda: self._make(*due[0]))

    def _is_due(self, key: Key, size: NamespaceStatistics, moment: float) -> bool:
        copy, asked = self._copies.get(key), self._asked.get(key)
        if copy is not None and copy.stamp == size.stamp:
            return False
        if copy is not None:
            del self._copies[key]
        if asked is None or asked.stamp != size.stamp or (moment - asked.since > _WITHIN_S and not asked.refused):
            asked = self._asked[key] = _Asked(size.stamp, moment)
        asked.times += 1
        self._asked.move_to_end(key)
        while len(self._asked) > _MOST_NOTED:
            self._asked.popitem(last=False)
        return asked.times >= _ASKED and not asked.refused and _estimated_bytes(size) <= self._most_bytes

    def _let_go(self, moment: float) -> None:
        """Of copies that nobody asks for; while there are too many, of their listings and then of themselves, the ones
        unused for longest first."""
        for key, copy in list(self._copies.items()):
            if moment - copy.used_at <= _IDLE_S:
                break
            del self._copies[key]
        excess = self._taken() - self._most_bytes
        for key, copy in list(self._copies.items()):
            if excess > 0 and copy.listing is not None:
                self._copies[key] = replace(copy, listing=None)
                excess -= copy.listing.byte_count
        while excess > 0:
            _, oldest = self._copies.popitem(last=False)
            excess -= oldest.byte_count

    def _taken(self) -> int:
        return sum(copy.byte_count for copy in self._copies.values())

    def _make(self, tenant_id: TenantId, namespace: Namespace) -> None:
        """Make a copy and keep it, then rest. Runs in a thread of its own and raises nothing."""
        started, cpu = self._clock(), time.thread_time()
        outcome: Outcome = "failed"
        try:
            outcome, copy = self._read(tenant_id, namespace)
            moment = self._clock()
            if copy is not None:
                self._keep((tenant_id, namespace), replace(copy, used_at=moment))
                log.info(
                    "keyword_index_loaded",
                    tenant_id=tenant_id,
                    chunks=len(copy.postings.lengths),
                    terms=copy.postings.term_count,
                    bytes=copy.byte_count,
                    elapsed_ms=round((moment - started) * 1000, 1),
                    cpu_ms=round((time.thread_time() - cpu) * 1000, 1),
                )
        except PipelineError as error:
            log.warning("keyword_index_not_loaded", tenant_id=tenant_id, code=error.code)
        except Exception as error:  # a bug of ours, or no memory: FULLTEXT answers all the same
            log.exception("keyword_index_bug", tenant_id=tenant_id, error=type(error).__name__)
        finally:
            self._rest((tenant_id, namespace), outcome, started=started, cpu_s=time.thread_time() - cpu)
        self._tell(outcome)

    def _read(self, tenant_id: TenantId, namespace: Namespace) -> tuple[Outcome, _Copy | None]:
        """What the namespace shows at a stamp.

        The rows are read by one statement, and so are of one moment; the stamp was the same before and after it, and no
        stamp comes back, so it was the same at that moment.
        """
        builder = PostingsBuilder()
        with reading(self._mysql) as connection:
            namespaces = Namespaces(connection, tenant_id)
            before = namespaces.revisions([namespace])
            for rows in KeywordIndex(connection, tenant_id).shown(namespace, at_once=_ROWS_AT_ONCE):
                builder.add([row.chunk_id for row in rows], [row.terms for row in rows], [row.fields for row in rows])
                if builder.term_count * _BYTES_PER_TERM > self._most_bytes:
                    return "too_large", None
            after = namespaces.revisions([namespace])
        if not before or before != after:
            return "changed", None
        try:
            postings = builder.build()
        except TooManyPlaces:
            return "too_large", None
        if postings.byte_count > self._most_bytes:
            return "too_large", None
        copy = _Copy(before[namespace].stamp, postings, 0.0, Listing.of(postings))
        return "loaded", copy if copy.byte_count <= self._most_bytes else replace(copy, listing=None)

    def _keep(self, key: Key, copy: _Copy) -> None:
        with self._lock:
            self._copies[key] = copy
            self._copies.move_to_end(key)
            self._asked.pop(key, None)
            self._let_go(copy.used_at)

    def _rest(self, key: Key, outcome: Outcome, *, started: float, cpu_s: float) -> None:
        moment = self._clock()
        least = max(_LEAST_REST_S if outcome == "failed" else 0.0, _REST_BY_THE_CLOCK * (moment - started))
        with self._lock:
            if outcome == "too_large" and key in self._asked:
                self._asked[key].refused = True
            self._rests_until = moment + self._rests * max(least, _REST * cpu_s)
            self._is_making = False


def _estimated_bytes(size: NamespaceStatistics) -> float:
    """What a copy will take at least."""
    return _BYTES_PER_TERM * size.term_count + _BYTES_PER_CHUNK * size.chunk_count
