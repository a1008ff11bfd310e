"""The composition root: connections and models, created once per process and handed down to use cases."""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, overload

import redis
from redis.asyncio import Redis as AsyncRedis
from sqlalchemy import Engine

from pipeline.answer.ended_query import EndedQuery
from pipeline.channels.circuit_breaker import BreakerLimits
from pipeline.channels.circuit_breaker_store import Breakers
from pipeline.channels.local_indexes import LocalIndexes
from pipeline.channels.semantic_channel import SearchedSpace
from pipeline.database.engines import indexed_engine, mysql_engine, postgres_engine, redis_client
from pipeline.database.expiring_record_store import FullStores, WorkerHeartbeats
from pipeline.database.installation import Installation
from pipeline.embedding.cache_store import VectorCacheStore
from pipeline.errors import CircuitOpen, Misconfigured
from pipeline.jobs.bell_store import JobBells
from pipeline.jobs.computation_store import Computations
from pipeline.keyword_index.indexer_report_store import IndexerReports
from pipeline.metrics.history_store import MetricHistory
from pipeline.metrics.last_sweep_store import LastSweep
from pipeline.metrics.meter_store import Meter
from pipeline.models.live_spaces import Spaces
from pipeline.models.make_models import Rerankers
from pipeline.models.ports import Embedder
from pipeline.models.service_pace import ProviderLimits
from pipeline.models.service_pace_store import FleetGovernor
from pipeline.models.tokenizer import TokenCounter, token_counter
from pipeline.outbound.fetch_client import Fetcher, FetchThreads
from pipeline.query.query_store import Queries
from pipeline.query.trace_store import KeptTraces
from pipeline.records import EmbeddingSpace, TenantId
from pipeline.sandbox.accepted_formats import accept_formats, recognition_of
from pipeline.sandbox.parser import Parser
from pipeline.semantic.document_vector_store import DocumentVectors
from pipeline.semantic.live_vector_store import LiveVectors
from pipeline.semantic.search_plan import LONGEST_SCAN
from pipeline.semantic.search_store import Samples, SearchTools, VectorSearch
from pipeline.semantic.vector_index_store import KnownIndexes
from pipeline.semantic.vector_store import Vectors
from pipeline.settings import Settings
from pipeline.tenants.quota_store import QuotaRooms
from pipeline.tenants.request_rate_store import RequestRates
from pipeline.tenants.usage_store import UsageBook

if TYPE_CHECKING:
    from pipeline.answer.answer_writer import AnswerWriter
    from pipeline.query.rewriter import Rewriter

SLOW_S: Final = 0.3  # seconds after which a call counts as slow: less than half of the usual timeout of a channel
_QUICK_REDIS_S = 0.5  # an optional read must not cost much time when Redis is unavailable
_USUAL_THREADS = 4  # threads of a query worker


class Bulkhead:
    """The threads that calls to each part (a channel, or reading texts) may hold in this process; thread-safe. A part
    may hold ``most`` threads; a further call waits, and is refused once the oldest call is slow and none has succeeded
    for as long (Nygard, "Release It!", 2018)."""

    def __init__(self, most: int, *, slow_s: float = SLOW_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._slow_s = slow_s
        self._clock = clock
        self._begun: defaultdict[str, list[float]] = defaultdict(list)
        self._succeeded_at: defaultdict[str, float] = defaultdict(lambda: -math.inf)
        self._changed = threading.Condition()

    def resize(self, threads: int) -> None:
        """Set ``most`` so that one of ``threads`` remains for the other parts."""
        with self._changed:
            self._most = max(1, threads - 1)
            self._changed.notify_all()

    @contextmanager
    def place(self, part: str) -> Iterator[None]:
        """Hold a thread for a call to ``part``. Raises CircuitOpen if slow calls hold all its threads."""
        begun = self._take(part)
        try:
            yield
            self._succeeded_at[part] = self._clock()  # slow calls that end need no refusals: a place is free soon
        finally:
            with self._changed:
                self._begun[part].remove(begun)
                self._changed.notify_all()

    def _take(self, part: str) -> float:
        with self._changed:
            calls = self._begun[part]
            while len(calls) >= self._most:
                left_s = max(min(calls), self._succeeded_at[part]) + self._slow_s - self._clock()
                if left_s <= 0:
                    raise CircuitOpen(
                        f"{len(calls)} calls of {part} are slow in this process; no further call was started"
                    )
                self._changed.wait(left_s)
            now = self._clock()
            calls.append(now)
            return now


class _ActiveEmbedder:
    """Looks up the active space at every access. Has no ``__set__``, so that a test may replace the embedder."""

    @overload
    def __get__(self, use: None, owner: type[Resources]) -> _ActiveEmbedder: ...
    @overload
    def __get__(self, use: Resources, owner: type[Resources]) -> Embedder: ...
    def __get__(self, use: Resources | None, owner: type[Resources]) -> Embedder | _ActiveEmbedder:
        return self if use is None else use.spaces.embedder(use.spaces.live().active)


@dataclass(frozen=True)
class Resources:
    """All dependencies of the use cases, connected at first use, so that creation never fails. ``timeout_s`` bounds its
    database calls. ``reading``: connections for single SELECT statements. ``outbox_filled``, called after a transaction
    that left webhook messages, must not raise. ``query_ended``, called after an answer was stored, must neither raise
    nor wait."""

    settings: Settings
    timeout_s: float | None = None
    reading: bool = False
    outbox_filled: Callable[[], object] | None = None
    query_ended: Callable[[EndedQuery], None] | None = None

    @cached_property
    def mysql(self) -> Engine:
        """The system of record."""
        return mysql_engine(self.settings, timeout_s=self.timeout_s, reading=self.reading)

    @cached_property
    def local_indexes(self) -> LocalIndexes | None:
        """The keyword indexes of this host, if the installation has them."""
        if self.settings.keyword_engine != "tantivy":
            return None
        wait_s = self.settings.keyword_index_wait_ms / 1000
        return LocalIndexes(self.settings.keyword_index_dir.expanduser(), wait_s=wait_s)

    @cached_property
    def postgres(self) -> Engine:
        """The vector store."""
        return postgres_engine(self.settings, timeout_s=self.timeout_s, reading=self.reading)

    @cached_property
    def postgres_indexed(self) -> Engine:
        """The vector store, for searches through the approximate indexes of large tenants."""
        return indexed_engine(self.settings, longest_scan=LONGEST_SCAN, timeout_s=self.timeout_s)

    @cached_property
    def installation(self) -> Installation:
        """The identity of the stores' installation; verified before one store is changed to match another."""
        return Installation(
            self.settings,
            mysql=lambda: self.mysql,
            postgres=lambda: self.postgres,
            on_refusal=lambda: self.meter.count("chordwise_installation_refusals"),
        )

    @cached_property
    def search_tools(self) -> SearchTools:
        """The parts that all vector searches share."""
        return SearchTools(
            exact=self.postgres,
            indexed=lambda: self.postgres_indexed,
            known=KnownIndexes(lambda: self.postgres),
            samples=Samples(),
            distance=self.settings.pgvector_distance,
            exact_chunks=self.settings.semantic_exact_chunks,
        )

    @cached_property
    def quick_redis(self) -> redis.Redis:
        """The Redis client with short timeouts, for the fleet's pace and cached vectors."""
        return redis_client(self.settings, timeout_s=_QUICK_REDIS_S)

    @cached_property
    def redis(self) -> redis.Redis:
        """Results, caches and the wake channel."""
        return redis_client(self.settings)

    @cached_property
    def async_redis(self) -> AsyncRedis:
        """The Redis client of an event loop, for checks ahead of every request. The loop's owner closes it."""
        url = self.settings.redis_url.get_secret_value()
        client: AsyncRedis = AsyncRedis.from_url(
            url, socket_timeout=_QUICK_REDIS_S, socket_connect_timeout=_QUICK_REDIS_S
        )
        return client

    @cached_property
    def request_rates(self) -> RequestRates:
        """The token buckets of the tenants' requests."""
        return RequestRates(self.async_redis)

    @cached_property
    def heartbeats(self) -> WorkerHeartbeats:
        """The heartbeats of the installation's workers."""
        return WorkerHeartbeats(self.quick_redis)

    @cached_property
    def full_stores(self) -> FullStores:
        """The stores that refused a write in the last minutes because they were full."""
        return FullStores(self.quick_redis)

    @cached_property
    def indexer_reports(self) -> IndexerReports:
        """The reports of each host's indexer."""
        return IndexerReports(self.quick_redis)

    @cached_property
    def metric_history(self) -> MetricHistory:
        """The installation's figures over time."""
        return MetricHistory(self.quick_redis)

    @cached_property
    def last_sweep(self) -> LastSweep:
        """The time of the sweeper's last complete sweep."""
        return LastSweep(self.quick_redis)

    @cached_property
    def meter(self) -> Meter:
        """The counters and timers behind /v1/metrics."""
        return Meter(self.quick_redis)

    @cached_property
    def breakers(self) -> Breakers:
        """The circuit breakers of the channels."""
        limits = BreakerLimits(failures=self.settings.breaker_failures, open_s=self.settings.breaker_open_s)
        return Breakers(self.redis, limits, meter=self.meter)

    @cached_property
    def bulkhead(self) -> Bulkhead:
        """The limits on threads per part. A worker with threads sets how many it has."""
        return Bulkhead(_USUAL_THREADS - 1)

    @cached_property
    def bells(self) -> JobBells:
        """The notifications for callers that wait for a job or follow it."""
        return JobBells(self.redis)

    @cached_property
    def vector_store(self) -> VectorCacheStore:
        """The cache of vectors that a service has computed."""
        limits = self.settings
        return VectorCacheStore(
            self.quick_redis, most_bytes=limits.embedding_cache_bytes, ttl_s=limits.embedding_cache_ttl_s
        )

    @cached_property
    def usage_book(self) -> UsageBook:
        """The records of embedding usage."""
        return UsageBook(
            lambda: self.mysql, price_per_million=self.settings.embedding_price_per_million, meter=lambda: self.meter
        )

    def _governor(self, account: str) -> FleetGovernor:
        limits = self.settings
        configured = ProviderLimits(
            requests=limits.embedding_requests_per_minute, tokens=limits.embedding_tokens_per_minute
        )
        return FleetGovernor(self.quick_redis, account, configured)

    @cached_property
    def spaces(self) -> Spaces:
        """The live embedding spaces and their models."""
        return Spaces(self.settings, lambda: self.mysql, governed_by=self._governor)

    # The model of the active space, for documents and queries alike. It changes with a switch: read it once, and use
    # that object for both the vectors and the name.
    embedder = _ActiveEmbedder()

    @cached_property
    def rerankers(self) -> Rerankers:
        """The rerankers by kind."""
        return Rerankers(self.settings)

    @cached_property
    def count_tokens(self) -> TokenCounter:
        """The token counter for contexts."""
        return token_counter(self.settings.context_tokenizer)

    @cached_property
    def rewriter(self) -> Rewriter:
        """The language model that rewrites and expands queries. Raises Misconfigured without one."""
        from pipeline.query.rewriter import Rewriter

        return Rewriter(model=self._language_model(), timeout_s=self.settings.llm_timeout_s)

    @cached_property
    def writer(self) -> AnswerWriter:
        """The language model that writes answers. Raises Misconfigured without one."""
        from pipeline.answer.answer_writer import AnswerWriter

        return AnswerWriter(model=self._language_model())

    def _language_model(self) -> str:
        if not self.settings.llm_model:
            raise Misconfigured("CHORDWISE_LLM_MODEL is not set")
        return self.settings.llm_model

    @cached_property
    def parser(self) -> Parser:
        """The parser, which extracts and cuts documents and runs possibly harmful ones in a separate process."""
        timeout_s = min(self.settings.parser_timeout_s, self.settings.ingest_lease_s / 3)
        return Parser(
            memory_bytes=self.settings.parser_memory_bytes,
            timeout_s=timeout_s,
            cutting_timeout_s=self.settings.cutting_timeout_s,
            recognition=recognition_of(self.settings),
        )

    @cached_property
    def fetcher(self) -> Fetcher:
        """The client that fetches documents from the web."""
        accept_formats(self.settings)  # the media types that may be fetched depend on it
        limits = self.settings
        return Fetcher(
            timeout_s=limits.fetch_timeout_s, max_bytes=limits.max_document_bytes, permitted=limits.fetch_allow_networks
        )

    @cached_property
    def quota_rooms(self) -> QuotaRooms:
        """This process's recent counts of the tenants that are far from their quotas."""
        return QuotaRooms()

    @cached_property
    def fetches(self) -> FetchThreads:
        """The threads in which this process fetches documents beside its other work."""
        return FetchThreads()

    def vectors(self, tenant_id: TenantId) -> LiveVectors:
        """Return one tenant's vectors: reads use the active space, writes reach every live one."""
        distance = self.settings.pgvector_distance
        return LiveVectors(
            self.postgres, tenant_id, distance=distance, spaces=self.spaces.live(), confirm=self.installation.confirm
        )

    def vectors_in(self, space: EmbeddingSpace, tenant_id: TenantId) -> Vectors:
        """Return one tenant's vectors in a given space."""
        return Vectors(self.postgres, tenant_id, distance=self.settings.pgvector_distance, table=space.table)

    def searched(self, number: int | None) -> SearchedSpace:
        """Return the space of this number, or the active one if it is not live any more."""
        live = self.spaces.live()
        if number is not None and live.numbered(number) is None:
            live = self.spaces.live(fresh=True)
        space = (live.numbered(number) if number is not None else None) or live.active
        return SearchedSpace(
            number=space.number,
            table=space.table,
            embedder=self.spaces.embedder(space),
            vectors=partial(self.vectors_in, space),
            search=partial(self.search_in, space),
            distance=self.settings.pgvector_distance,
        )

    def search_in(self, space: EmbeddingSpace, tenant_id: TenantId) -> VectorSearch:
        """Return the search among one tenant's vectors in a given space."""
        return VectorSearch(self.search_tools, tenant_id, table=space.table)

    def document_vectors(self, tenant_id: TenantId) -> DocumentVectors:
        """Return one tenant's vectors of whole documents."""
        return DocumentVectors(self.postgres, tenant_id, table=self.spaces.live().active.table)

    def queries(self, tenant_id: TenantId) -> Queries:
        """Return one tenant's running and answered queries."""
        return Queries(self.redis, tenant_id, ttl_s=self.settings.query_ttl_s)

    def traces(self, tenant_id: TenantId) -> KeptTraces:
        """Return one tenant's kept traces."""
        most, ttl_s = self.settings.traces_kept, self.settings.trace_ttl_s
        return KeptTraces(self.redis, tenant_id, most=most, ttl_s=ttl_s, requested_ttl_s=self.settings.query_ttl_s)

    def computations(self, tenant_id: TenantId) -> Computations:
        """Return the computations of one tenant."""
        return Computations(self.redis, lambda: self.mysql, tenant_id)

    def close(self) -> None:
        """Close every connection that was opened."""
        if "usage_book" in self.__dict__:
            self.usage_book.close()
        if "meter" in self.__dict__:
            self.meter.close()
        for name in ("mysql", "postgres", "postgres_indexed"):
            if name in self.__dict__:
                self.__dict__[name].dispose()
        for name in ("fetches", "redis", "quick_redis", "spaces", "rerankers", "rewriter", "writer", "parser"):
            if name in self.__dict__:
                self.__dict__[name].close()
