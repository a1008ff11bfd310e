"""Decide which queries may share an answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from pydantic import TypeAdapter

from pipeline.query.request import Query
from pipeline.records import ChannelName, Namespace

# Caller, time and filing: nothing in an answer depends on them but its own id and time.
NOT_IN_KEY: Final = frozenset(
    {
        *("query_id", "request_id", "created_at", "deadline_at", "session_id", "asked_by", "trace"),
        *("cache_key", "stamps", "before_routing", "rules_known"),
    }
)

_EXCLUDED: Final[Mapping[str, Any]] = {**dict.fromkeys(NOT_IN_KEY, True), "plan": {"lane"}}  # all lanes answer alike

# A query that begins sooner after a change may still see the state before it; see `retrieval.compose`.
SETTLES_AFTER_S: Final = 5.0

# The hits of these change with the revision of a namespace; those of an API or a plugin change unnoticed.
_REVISED_CHANNELS: Final = frozenset({ChannelName.KEYWORD, ChannelName.SEMANTIC, ChannelName.FAQ})

_QUERY: Final[TypeAdapter[Query]] = TypeAdapter(Query)

_FORMAT: Final = 2  # to be raised when the same settings begin to give other answers


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
