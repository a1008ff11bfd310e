"""What flows work with: connections and models, made once per process and handed down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import redis
from sqlalchemy import Engine

from pipeline.core.pacing import Limits
from pipeline.fetching.fetch import Fetcher
from pipeline.fetching.threads import FetchThreads
from pipeline.flows.counting import UsageBook
from pipeline.models.factory import make_embedder, make_reranker
from pipeline.models.port import Embedder, Reranker
from pipeline.records import TenantId
from pipeline.sandbox.parser import Parser
from pipeline.sandbox.plugins import register_installed_parsers
from pipeline.settings import Settings
from pipeline.stores.engines import mysql_engine, postgres_engine, redis_client
from pipeline.stores.governor import FleetGovernor
from pipeline.stores.job_bells import JobBells
from pipeline.stores.queries import Queries
from pipeline.stores.vector_cache import VectorStore
from pipeline.stores.vectors import Vectors

# What is nice to have of Redis must not cost much time when Redis has none.
_QUICK_REDIS_S = 0.5


@dataclass(frozen=True)
class Resources:
    """Everything a flow may need. Nothing is connected before its first use, so making one is cheap and never fails.

    ``timeout_s`` bounds every database call made through it: the channels of a query get less than ingestion.
    ``reading``: its connections are for single statements that change nothing. ``outbox_filled`` is called after a
    transaction that left something to be sent to webhooks; it must not raise, and if it fails they are sent later.
    """

    settings: Settings
    timeout_s: float | None = None
    reading: bool = False
    outbox_filled: Callable[[], object] | None = None

    @cached_property
    def mysql(self) -> Engine:
        """The system of record."""
        return mysql_engine(self.settings, timeout_s=self.timeout_s, reading=self.reading)

    @cached_property
    def postgres(self) -> Engine:
        """The vector store."""
        return postgres_engine(self.settings, timeout_s=self.timeout_s, reading=self.reading)

    @cached_property
    def quick_redis(self) -> redis.Redis:
        """The pace of the fleet and the vectors that were made already."""
        return redis_client(self.settings, timeout_s=_QUICK_REDIS_S)

    @cached_property
    def redis(self) -> redis.Redis:
        """Results, caches and the wake channel."""
        return redis_client(self.settings)

    @cached_property
    def bells(self) -> JobBells:
        """What wakes those who wait for a job or follow it."""
        return JobBells(self.redis)

    @cached_property
    def embedder(self) -> Embedder:
        """The one model for documents and queries alike."""
        return make_embedder(self.settings, governed_by=self._governor)

    @cached_property
    def vector_store(self) -> VectorStore:
        """Vectors that a service has made already."""
        limits = self.settings
        return VectorStore(
            self.quick_redis, most_bytes=limits.embedding_cache_bytes, ttl_s=limits.embedding_cache_ttl_s
        )

    @cached_property
    def usage_book(self) -> UsageBook:
        """What embedding costs."""
        return UsageBook(lambda: self.mysql, price_per_million=self.settings.embedding_price_per_million)

    def _governor(self, account: str) -> FleetGovernor:
        limits = self.settings
        configured = Limits(requests=limits.embedding_requests_per_minute, tokens=limits.embedding_tokens_per_minute)
        return FleetGovernor(self.quick_redis, account, configured)

    @cached_property
    def reranker(self) -> Reranker:
        """What reads the best candidates once more."""
        return make_reranker(self.settings)

    @cached_property
    def parser(self) -> Parser:
        """What makes text of documents, in a process of its own where they may be harmful."""
        timeout_s = min(self.settings.parser_timeout_s, self.settings.ingest_lease_s / 3)
        return Parser(memory_bytes=self.settings.parser_memory_bytes, timeout_s=timeout_s)

    @cached_property
    def fetcher(self) -> Fetcher:
        """What gets documents from the web."""
        register_installed_parsers()  # what a fetched document may be depends on it
        limits = self.settings
        return Fetcher(
            timeout_s=limits.fetch_timeout_s,
            max_bytes=limits.max_document_bytes,
            permitted=limits.fetch_allow_networks,
        )

    @cached_property
    def fetches(self) -> FetchThreads:
        """The threads in which this process waits for the web, beside its other work."""
        return FetchThreads()

    def vectors(self, tenant_id: TenantId) -> Vectors:
        """One tenant's vectors."""
        return Vectors(self.postgres, tenant_id, distance=self.settings.pgvector_distance)

    def queries(self, tenant_id: TenantId) -> Queries:
        """One tenant's running and answered queries."""
        return Queries(self.redis, tenant_id, ttl_s=self.settings.query_ttl_s)

    def close(self) -> None:
        """Let go of every connection that was made."""
        if "usage_book" in self.__dict__:
            self.usage_book.close()
        for name in ("mysql", "postgres"):
            if name in self.__dict__:
                self.__dict__[name].dispose()
        for name in ("fetches", "redis", "quick_redis", "embedder", "reranker", "parser"):
            if name in self.__dict__:
                self.__dict__[name].close()
