"""The composition root: connections and models, created once per process and handed down to use cases."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

from sqlalchemy import Engine

from pipeline.answer.ended_query import EndedQuery
from pipeline.channels.bulkhead import Bulkhead
from pipeline.channels.circuit_breaker_store import BreakerLimits, Breakers
from pipeline.channels.local_indexes import LocalIndexes
from pipeline.channels.semantic_channel import SearchedSpace
from pipeline.database.bounded_waits import SILENT_S
from pipeline.database.engines import (
    async_redis_client,
    indexed_engine,
    mysql_engine,
    mysql_errors,
    postgres_engine,
    postgres_errors,
    redis_client,
    redis_errors,
)
from pipeline.database.expiring_record_store import WorkerHeartbeats
from pipeline.database.installation import Installation
from pipeline.database.one_primary import OnePrimary
from pipeline.database.redis_memory import memory_reader
from pipeline.database.tenant_presence import require_tenant
from pipeline.database.unit_of_work import reading
from pipeline.embedding.cache_store import VectorCacheStore
from pipeline.errors import Misconfigured, Unavailable
from pipeline.jobs.computation_store import Computations
from pipeline.jobs.notification_store import JobNotifications
from pipeline.keyword_index.indexer_report_store import IndexerReports
from pipeline.metrics.history_store import MetricHistory
from pipeline.metrics.last_sweep_store import LastSweep
from pipeline.metrics.meter_store import Meter
from pipeline.models.live_spaces import Spaces
from pipeline.models.make_models import Rerankers
from pipeline.models.ports import Embedder
from pipeline.models.service_pace import ProviderLimits
from pipeline.models.service_pace_store import FleetGovernor
from pipeline.models.tokenizer import token_counter
from pipeline.outbound.fetch_client import Fetcher, FetchThreads
from pipeline.query.place_store import Places
from pipeline.query.query_store import Queries
from pipeline.query.trace_store import KeptTraces
from pipeline.records import EmbeddingSpace, TenantId
from pipeline.sandbox.accepted_formats import accept_formats, recognition_of
from pipeline.sandbox.parser import Parser
from pipeline.semantic.document_vector_store import DocumentVectors
from pipeline.semantic.search_store import EXACT_CHUNKS, Samples, SearchTools, VectorSearch
from pipeline.semantic.vector_index_store import KnownIndexes
from pipeline.semantic.vector_store import LiveVectors, Vectors
from pipeline.settings import Settings
from pipeline.tenants.quota_store import QuotaRooms
from pipeline.tenants.request_rate_store import RequestRates
from pipeline.tenants.usage_store import UsageBook

if TYPE_CHECKING:
    from pipeline.answer.answer_writer import AnswerWriter
    from pipeline.query.rewriter import Rewriter

_QUICK_REDIS_S = 0.5  # an optional read must not cost much time when Redis is unavailable
_USUAL_THREADS = 4  # threads of a query worker
_POOLS = {"mysql": mysql_errors, "postgres": postgres_errors, "postgres_indexed": postgres_errors}  # with their errors


@dataclass(frozen=True)
class Resources:
    """All dependencies of the use cases, connected at first use, so that creation never fails. ``timeout_s`` bounds its
    database calls, ``silent_s`` those for a server that greets nobody. ``reading``: connections for single SELECT
    statements. ``exact_chunks``: the most chunks of a tenant that are compared one by one; above, it gets vector
    indexes. ``outbox_filled``, called after a transaction that left webhook messages, must not raise. ``query_ended``,
    called after an answer was stored, must neither raise nor wait."""

    settings: Settings
    timeout_s: float | None = None
    silent_s: float = SILENT_S
    reading: bool = False
    exact_chunks: int = EXACT_CHUNKS
    outbox_filled: Callable[[], object] | None = None
    query_ended: Callable[[EndedQuery], None] | None = None

    redis = cached_property(lambda use: redis_client(use.settings))  # results, caches and the wake channel
    quick_redis = cached_property(lambda use: redis_client(use.settings, timeout_s=_QUICK_REDIS_S))  # optional reads
    redis_memory = cached_property(lambda use: memory_reader(use.quick_redis))  # use and limit of the last second
    async_redis = cached_property(
        lambda use: async_redis_client(use.settings, timeout_s=_QUICK_REDIS_S)
    )  # for the loop
    request_rates = cached_property(lambda use: RequestRates(use.async_redis))  # token buckets of the tenants' requests
    heartbeats = cached_property(lambda use: WorkerHeartbeats(use.quick_redis))  # of the installation's workers
    indexer_reports = cached_property(lambda use: IndexerReports(use.quick_redis))  # of each host's indexer
    metric_history = cached_property(lambda use: MetricHistory(use.quick_redis))  # the installation's figures over time
    last_sweep = cached_property(lambda use: LastSweep(use.quick_redis))  # the time of the last complete sweep
    meter = cached_property(lambda use: Meter(use.quick_redis))  # the counters and timers behind /v1/metrics
    places = cached_property(lambda use: Places(use.redis))  # for work under way, of all gateways
    notifications = cached_property(lambda use: JobNotifications(use.redis))  # for callers that follow a job
    rerankers = cached_property(lambda use: Rerankers(use.settings))  # by kind
    count_tokens = cached_property(lambda use: token_counter(use.settings.context_tokenizer))  # of contexts
    quota_rooms = cached_property(lambda _: QuotaRooms())  # recent counts of tenants that are far from their quotas
    fetches = cached_property(lambda _: FetchThreads())  # the threads that fetch documents beside other work

    @cached_property
    def mysql(self) -> Engine:
        """The system of record."""
        engine = mysql_engine(self.settings, timeout_s=self.timeout_s, silent_s=self.silent_s, reading=self.reading)
        if not self.reading:
            OnePrimary(lambda: self.quick_redis).guard(engine)
        return engine

    @cached_property
    def local_indexes(self) -> LocalIndexes | None:
        """The keyword indexes of this host, if the installation has them."""
        if self.settings.keyword_engine != "tantivy":
            return None
        return LocalIndexes(self.settings.keyword_index_dir.expanduser())

    @cached_property
    def postgres(self) -> Engine:
        """The vector store."""
        return postgres_engine(self.settings, timeout_s=self.timeout_s, silent_s=self.silent_s, reading=self.reading)

    @cached_property
    def postgres_indexed(self) -> Engine:
        """The vector store, for searches through the approximate indexes of large tenants."""
        return indexed_engine(self.settings, timeout_s=self.timeout_s, silent_s=self.silent_s)

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
            exact_chunks=self.exact_chunks,
        )

    @cached_property
    def breakers(self) -> Breakers:
        """The circuit breakers of the channels."""
        limits = BreakerLimits(failures=self.settings.breaker_failures)
        return Breakers(self.redis, limits, meter=self.meter)

    @cached_property
    def bulkhead(self) -> Bulkhead:
        """The limits on threads per part. A worker with threads sets how many it has."""
        return Bulkhead(_USUAL_THREADS - 1)

    @cached_property
    def vector_store(self) -> VectorCacheStore:
        """The cache of vectors that a service has computed."""
        most_bytes = self.settings.embedding_cache_bytes
        return VectorCacheStore(self.quick_redis, most_bytes=most_bytes, memory=self.redis_memory)

    @cached_property
    def usage_book(self) -> UsageBook:
        """The records of embedding usage."""
        price = self.settings.embedding_price_per_million
        return UsageBook(lambda: self.mysql, price_per_million=price, meter=lambda: self.meter)

    def _governor(self, account: str) -> FleetGovernor:
        requests, tokens = self.settings.embedding_requests_per_minute, self.settings.embedding_tokens_per_minute
        return FleetGovernor(self.quick_redis, account, ProviderLimits(requests=requests, tokens=tokens))

    @cached_property
    def spaces(self) -> Spaces:
        """The live embedding spaces and their models."""
        return Spaces(self.settings, lambda: self.mysql, governed_by=self._governor)

    @property
    def embedder(self) -> Embedder:
        """The model of the active space, for documents and queries alike. It changes with a switch: read it once, and
        use that object for both the vectors and the name."""
        return self.spaces.embedder(self.spaces.live().active)

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
            recognition=recognition_of(self.settings),
        )

    @cached_property
    def fetcher(self) -> Fetcher:
        """The client that fetches documents from the web."""
        accept_formats(self.settings)  # the media types that may be fetched depend on it
        return Fetcher(max_bytes=self.settings.max_document_bytes, permitted=self.settings.fetch_networks)

    def vectors(self, tenant_id: TenantId) -> LiveVectors:
        """Return one tenant's vectors: reads use the active space, writes reach every live one."""
        distance = self.settings.pgvector_distance
        return LiveVectors(
            self.postgres,
            tenant_id,
            distance=distance,
            spaces=self.spaces.live(),
            confirm=self.installation.confirm,
            require_tenant=self._require_tenant,
        )

    def vectors_in(self, space: EmbeddingSpace, tenant_id: TenantId) -> Vectors:
        """Return one tenant's vectors in a given space."""
        return Vectors(
            self.postgres,
            tenant_id,
            distance=self.settings.pgvector_distance,
            table=space.table,
            require_tenant=self._require_tenant,
        )

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
        table = self.spaces.live().active.table
        return DocumentVectors(self.postgres, tenant_id, table=table, require_tenant=self._require_tenant)

    def _require_tenant(self, tenant_id: str) -> None:
        with mysql_errors(), self.mysql.connect() as connection:
            require_tenant(connection, tenant_id)

    def queries(self, tenant_id: TenantId) -> Queries:
        """Return one tenant's running and answered queries."""
        use = self.settings
        return Queries(
            self.redis,
            tenant_id,
            ttl_s=use.query_ttl_s,
            cached_s=use.result_cache_ttl_s,
            quota=use.quota_answer_bytes,
            memory=self.redis_memory,
        )

    def traces(self, tenant_id: TenantId) -> KeptTraces:
        """Return one tenant's kept traces."""
        most, requested_ttl_s = self.settings.traces_kept, self.settings.query_ttl_s
        return KeptTraces(self.redis, tenant_id, most=most, requested_ttl_s=requested_ttl_s, memory=self.redis_memory)

    def computations(self, tenant_id: TenantId) -> Computations:
        """Return the computations of one tenant."""
        return Computations(self.redis, lambda: self.mysql, tenant_id, memory=self.redis_memory)

    def warm_up(self) -> None:
        """Connect to MySQL and Redis ahead of the first use. Servers that are away are tried again when they are needed."""
        with suppress(Unavailable), reading(self.mysql):
            pass
        with suppress(Unavailable), redis_errors():
            self.redis.ping()

    def stay_connected(self) -> None:
        """Use a connection of each pool. After a minute without use it would be replaced, while a query waits. Raises
        StoreUnavailable."""
        for name, errors in _POOLS.items():
            if name in self.__dict__:
                with errors(), self.__dict__[name].connect() as connection:
                    connection.exec_driver_sql("SELECT 1")

    def close(self) -> None:
        """Close every connection that was opened."""
        first, last = ("usage_book", "meter"), ("fetches", "redis", "quick_redis", "spaces", "rerankers", "rewriter")
        for name in [name for name in first if name in self.__dict__]:
            self.__dict__[name].close()
        for name in _POOLS.keys() & self.__dict__.keys():
            self.__dict__[name].dispose()
        for name in [name for name in (*last, "writer", "parser") if name in self.__dict__]:
            self.__dict__[name].close()
