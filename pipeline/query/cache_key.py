"""When two queries ask the same, so that the answer to one is the answer to the other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from pydantic import TypeAdapter

from pipeline.query.request import Query
from pipeline.records import ChannelName, Namespace

# Who asks, when, and how it is filed: nothing in an answer depends on them but its own id and time.
NOT_ASKED: Final = frozenset(
    {
        "query_id",
        "request_id",
        "created_at",
        "deadline_at",
        "session_id",
        "asked_by",
        "trace",
        "cache_key",
        "stamps",
        "before_routing",
        "rules_known",
    }
)

_EXCLUDED: Final[Mapping[str, Any]] = {**dict.fromkeys(NOT_ASKED, True), "plan": {"lane"}}  # all lanes answer alike

# A query that begins sooner after a change may still be shown what was there before it; see `retrieval.compose`.
SETTLES_AFTER_S: Final = 5.0

# What these find changes with the revision of a namespace; what an API or a plugin finds changes unnoticed.
_NOTED: Final = frozenset({ChannelName.KEYWORD, ChannelName.SEMANTIC, ChannelName.FAQ})

_QUERY: Final[TypeAdapter[Query]] = TypeAdapter(Query)

_FORMAT: Final = 2  # to be raised when the same settings begin to give other answers


def cache_key(query: Query, *, revisions: Mapping[Namespace, str], installation: str) -> str:
    """A digest of all that an answer depends on: the tenant, every setting of the query, what each namespace that
    may have a part in it shows (``revisions``), the installation's own settings, and the hour, as decay and a language
    model's idea of what is recent depend on the present.

    A field that is added to queries is part of it unless it is named in ``NOT_ASKED``.
    """
    parts = {
        "format": _FORMAT,
        "query": json.loads(_QUERY.dump_json(query, exclude=_EXCLUDED)),
        "revisions": {name: revisions[name] for name in query.namespaces_depended_on},
        "installation": installation,
        "hour": int(query.created_at // 3600),
    }
    # Not orjson: what somebody filters by may be a number that it does not write.
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def can_tell(query: Query) -> bool:
    """Return whether revisions tell of every change that may change the answer: every named namespace exists, and no
    channel, for the first retrieval or for a second one, finds things outside of namespaces."""
    if query.missing_namespaces:
        return False
    channels = query.plan.retrieve.channels.items()
    return all(ChannelName(name) in _NOTED for name, channel in channels if channel.weight > 0)


def has_settled(query: Query, revised_at: datetime | None) -> bool:
    """Whether a namespace's last change is so long ago that the query can see nothing from before it."""
    return revised_at is None or query.created_at - revised_at.timestamp() > SETTLES_AFTER_S
