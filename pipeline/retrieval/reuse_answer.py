"""The answer cache: repeat an answer to the same question of the same tenant while its inputs are unchanged.

The gateway reads the revisions of all namespaces that may contribute to the answer, and puts the cache key into the
query; the composing process stores the answer under that key. A revision changes in the transaction that changes what
searches see, so an older answer is never found again. An answer composed during that transaction has the old key.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import orjson
import structlog
from pydantic import TypeAdapter, ValidationError

from pipeline.answer.result import Answer
from pipeline.database.unit_of_work import reading
from pipeline.errors import Unavailable
from pipeline.outages import OutagePause
from pipeline.query.request import Query
from pipeline.records import ChannelName, Namespace
from pipeline.resources import Resources
from pipeline.retrieval.compose import render
from pipeline.retrieval.measure import log_answer, measure_answer
from pipeline.retrieval.record_search import search_row
from pipeline.settings import Settings
from pipeline.tenants.namespace_store import Namespaces, Revision

log = structlog.get_logger(__name__)

_ANSWER: TypeAdapter[Answer] = TypeAdapter(Answer)
_MOST_BYTES = 256 * 1024  # of an answer, in the memory of Redis
_PAUSE_S = 5.0  # seconds without another attempt after MySQL did not answer, or each query would wait for it
_SHAPING = ("recall_", "rerank_", "rrf_", "retrieval_", "llm_", "embedding_", "pgvector_", "mask_", "query_")
_SHAPING_NOTHING = ("query_lane",)  # all lanes give the same answer


class AnswerCache:
    """The answer cache. ``use`` has short timeouts, because a slow look-up is worth nothing. ``away`` returns whether
    MySQL is already known to be unavailable."""

    def __init__(
        self,
        use: Resources,
        *,
        away: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.use = use
        self._known_away = away
        self._installation = _fingerprint(use.settings)
        self._pause = OutagePause(_PAUSE_S, clock=clock)

    def keyed(self, query: Query, *, keep: bool = True) -> Query:
        """Return ``query`` with the revisions of its namespaces, if MySQL answers, with the filter by readers unless
        all documents there are public, and with its cache key if the answer may be cached: if ``keep``, caching is
        on, no trace is asked for, all channels are revised, and no namespace changed a moment ago."""
        # An earlier query that this one repeats leaves outdated revisions.
        query = filtered_by_readers(replace(query, cache_key="", stamps={}), None)
        if not self._pause.is_over or self._known_away():
            return query
        names = query.namespaces_depended_on
        revisions = None
        with self._pause.after_outage(log.warning, "revisions_not_read"), reading(self.use.mysql) as connection:
            revisions = Namespaces(connection, query.tenant_id).revisions(names)
        if revisions is None:
            return query
        query = filtered_by_readers(query, revisions.values())
        stamps = {name: revision.stamp for name, revision in revisions.items()}
        keep = keep and bool(self.use.settings.result_cache_ttl_s) and not query.trace and is_cacheable(query)
        settled = keep and all(name in revisions and has_settled(query, revisions[name].revised_at) for name in names)
        key = cache_key(query, revisions=stamps, installation=self._installation) if settled else ""
        return replace(query, cache_key=key, stamps=stamps)

    def answer(self, query: Query) -> bytes | None:
        """Return the cached answer under the query's own id and time, and store it as if it had run; None without
        one."""
        if not query.cache_key:
            return None
        queries = self.use.queries(query.tenant_id)
        cached = None
        with suppress(Unavailable):
            cached = _read(queries.cached_answer(query.cache_key))
        self.use.meter.count("chordwise_result_cache", result="miss" if cached is None else "hit")
        if cached is None:
            return None
        answer = _readdressed(cached, query)
        rendered = render(answer)
        queries.open_answered(query, rendered, note=search_row(query, answer, self.use))
        measure_answer(query, answer, self.use.meter, by_tenant=self.use.settings.metrics_tenants)
        log_answer(query, answer, first=True)
        return rendered


def filtered_by_readers(query: Query, revisions: Iterable[Revision] | None) -> Query:
    """Return the query with the filter by readers, unless all documents of its namespaces are public. ``revisions``:
    theirs, None if they are not known."""
    is_restricted = revisions is None or any(revision.is_restricted for revision in revisions)
    return replace(query, filters=replace(query.filters, readers=query.principals if is_restricted else None))


def may_be_cached(query: Query, answer: Answer, size: int, use: Resources) -> bool:
    """Return whether an answer of ``size`` bytes is cached: a complete one to a query with a cache key."""
    is_complete = answer.status == "succeeded" and not answer.stats.degraded
    return bool(query.cache_key and is_complete and size <= _MOST_BYTES and use.settings.result_cache_ttl_s)


def _read(raw: bytes | None) -> Answer | None:
    """Parse a cached answer, None if there is none, or if another version of this code wrote it in another shape."""
    try:
        return None if raw is None else _ANSWER.validate_json(raw)
    except ValidationError:
        return None


def _readdressed(answer: Answer, query: Query) -> Answer:
    total = round((time.time() - query.created_at) * 1000, 3)
    stats = replace(answer.stats, cached=True, latency_ms={"total": total})
    return replace(answer, query_id=query.query_id, stats=stats)


def _fingerprint(settings: Settings) -> str:
    """Return a digest of the settings that shape answers, without secrets."""
    shaping = {
        name: value
        for name, value in settings.model_dump(mode="json").items()
        if name.startswith(_SHAPING) and not name.startswith(_SHAPING_NOTHING) and "key" not in name
    }
    return hashlib.sha256(orjson.dumps(shaping, option=orjson.OPT_SORT_KEYS)).hexdigest()


# Caller, time and filing: nothing in an answer depends on them but its own id and time.
NOT_IN_KEY: Final = frozenset(
    {
        # Documents with readers are filtered by them, and the answer depends on the principals in the filter.
        "principals",
        *("query_id", "request_id", "created_at", "deadline_at", "session_id", "asked_by", "trace"),
        *("cache_key", "stamps", "before_routing", "rules_known", "caps"),
    }
)

_EXCLUDED: Final[Mapping[str, Any]] = {**dict.fromkeys(NOT_IN_KEY, True), "plan": {"lane"}}  # all lanes answer alike

# A query that begins sooner after a change may still see the state before it; see `retrieval.compose`.
SETTLES_AFTER_S: Final = 5.0

# The hits of these change with the revision of a namespace; those of an API or a plugin change unnoticed.
_REVISED_CHANNELS: Final = frozenset({ChannelName.KEYWORD, ChannelName.SEMANTIC, ChannelName.FAQ})

_QUERY: Final[TypeAdapter[Query]] = TypeAdapter(Query)

_FORMAT: Final = 4  # to be raised when the same settings begin to give other answers


def cache_key(query: Query, *, revisions: Mapping[Namespace, str], installation: str) -> str:
    """Return a digest of everything that an answer depends on: the tenant, every setting of the query, the
    ``revisions`` of the namespaces involved, the installation's settings, and the hour, because decay and a model's
    idea of "recent" depend on the present.

    Every new field of queries is part of it unless ``NOT_IN_KEY`` names it.
    """
    parts = {
        "format": _FORMAT,
        "query": json.loads(_QUERY.dump_json(query, exclude=_EXCLUDED)),
        "revisions": {name: revisions[name] for name in query.namespaces_depended_on},
        "installation": installation,
        "hour": int(query.created_at // 3600),
    }
    # Not orjson: a filter may hold a number that it does not write.
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def is_cacheable(query: Query) -> bool:
    """Return whether revisions reveal every change that may alter the answer: every named namespace exists, and no
    channel of the first or a second retrieval searches outside of namespaces."""
    if query.missing_namespaces:
        return False
    channels = query.plan.retrieve.channels.items()
    return all(ChannelName(name) in _REVISED_CHANNELS for name, channel in channels if channel.weight > 0)


def has_settled(query: Query, revised_at: datetime | None) -> bool:
    """Return whether a namespace's last change is old enough that the query cannot see the state before it."""
    return revised_at is None or query.created_at - revised_at.timestamp() > SETTLES_AFTER_S
