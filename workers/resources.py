"""The resources of this process, created at first use, and so after the fork."""

from __future__ import annotations

import functools
from contextlib import suppress

import structlog
from sqlalchemy.exc import SQLAlchemyError

from pipeline.channels.channel import AbsentChannel, Channel
from pipeline.database.expiring_record_store import FullStores
from pipeline.errors import Misconfigured
from pipeline.metrics.meter_store import Meter
from pipeline.models.local_embedder import LocalEmbedder, prepare_references
from pipeline.models.make_models import check_embedder, make_local_embedder
from pipeline.models.tokenizer import token_counter
from pipeline.outages import tolerate_outage
from pipeline.records import Candidate, ChannelName, ChunkId
from pipeline.resources import Resources
from pipeline.retrieval.make_channels import make_channels
from pipeline.retrieval.rehearse import rehearse
from pipeline.settings import Settings, settings
from workers.dispatch import send_webhooks
from workers.query_events import events

log = structlog.get_logger(__name__)


@functools.cache
def for_ingestion() -> Resources:
    """Return resources with long timeouts: a batch may take its time."""
    return Resources(settings(), outbox_filled=send_webhooks)


@functools.cache
def for_queries() -> Resources:
    """Return resources with short timeouts: a statement that takes longer than a channel may is of no use to a query."""
    timeout_s = settings().recall_timeout_ms / 1000
    return Resources(settings(), timeout_s=timeout_s, reading=True, query_ended=events.show)


@functools.cache
def channels() -> dict[ChannelName, Channel]:
    """Return the channels of this installation."""
    return make_channels(for_queries())


def channel_named(name: str) -> Channel:
    """Return a channel by name; a stand-in that reports the loss if its package is not installed here, or failed."""
    installed = channels()  # registers their names
    channel = ChannelName.admit(name)
    return installed.get(channel) or AbsentChannel(channel)


def resize(use: Resources, threads: int) -> None:
    """Tell the bulkhead how many threads this process has."""
    use.bulkhead.resize(threads)


def meter() -> Meter:
    """Return this process's meter of tasks, shared with the resources that exist already."""
    existing = for_queries if for_queries.cache_info().currsize else for_ingestion
    return existing().meter


def full_stores() -> FullStores:
    """Return this process's reports of full stores."""
    existing = for_queries if for_queries.cache_info().currsize else for_ingestion
    return FullStores(existing().quick_redis)


def hand_over() -> None:
    """Report the counts before the process ends."""
    for resources in (for_queries, for_ingestion):
        if resources.cache_info().currsize:
            resources().meter.close()


def preload(config: Settings, *, computes_only: bool) -> None:
    """Read in the parent of worker processes what each of them would read for itself. Opens no connections."""
    with suppress(Misconfigured):  # the children report it
        if config.embedding_provider == "local" and not computes_only:
            embedder = make_local_embedder(config.embedding_model, config.embedding_dim)
            if isinstance(embedder, LocalEmbedder):
                embedder.preload()
        token_counter(config.context_tokenizer)


def warm_up(use: Resources) -> None:
    """Load the model, open connections and answer a question before the first query; what is unavailable is tried again when
    needed."""
    try:
        with tolerate_outage(log.warning, "warm_up_failed", also=(Misconfigured,), detail=True):
            check_embedder(use.embedder, timeout_s=10.0)
            provider = use.settings.reranker_for("auto")
            if provider == "local":
                warm = Candidate(chunk_id=ChunkId("warm"), title=None, text="up")
                use.rerankers.of(provider).rerank("warm up", [warm], timeout_s=5.0)
            elif provider == "http":  # asking a service costs money; only load its TLS configuration
                use.rerankers.of(provider)
            use.count_tokens("warm up")
            if use.reading:
                channels()  # looks for installed packages
                use.warm_up()
                prepare_references(use.embedder)
                if use.settings.llm_model:
                    _ = use.rewriter  # its client takes longer to load than a query waits for it
                use.spaces.follow(stay_connected=use.stay_connected)
                _ = use.postgres_indexed
            with use.mysql.connect(), use.postgres.connect():
                use.stay_connected()
            if use.reading:
                rehearse(use, channels())
    except SQLAlchemyError as error:
        log.warning("warm_up_failed", code="store_unavailable", detail=type(error).__name__)
