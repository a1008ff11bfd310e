"""The part of Celery's result backend that chords need. The query's own hash counts the parts (`pipeline.query.query_store`),
and no result is stored: nothing reads one."""

from __future__ import annotations

from typing import Any

import structlog
from celery import states
from celery.backends.base import BaseBackend
from celery.canvas import maybe_signature

from pipeline.outages import tolerate_outage
from pipeline.records import QueryId, TenantId

log = structlog.get_logger(__name__)


class ChordBackend(BaseBackend):  # type: ignore[misc]  # Celery has no types
    """Call the callback of a chord after its last header: the one that returns True, because every header has reported, or
    one that raised when every other one had reported."""

    def apply_chord(self, header_result_args: Any, body: Any, **options: Any) -> None:
        """Keep nothing of a chord that is about to be sent."""

    def on_chord_part_return(self, request: Any, state: str, result: Any, **_: Any) -> None:
        """Call the callback after the last header."""
        is_last = result is True if state == states.SUCCESS else _was_last(request)
        if is_last:
            maybe_signature(request.chord, app=self.app).delay()

    def store_result(self, *arguments: Any, **options: Any) -> None:
        """Store nothing."""

    def as_uri(self, *_: Any, **__: Any) -> str:
        """Return the name that Celery logs."""
        return "chordwise"


def _was_last(request: Any) -> bool:
    """Count a header that raised, and so reported nothing, and return whether every other one has reported. The callback knows
    the query, whatever the header's arguments are. Without Redis, the deadline answers."""
    from workers.resources import for_queries  # stores, which a sender of messages does without

    of = request.chord["kwargs"]
    queries = for_queries().queries(TenantId(of["tenant_id"]))
    with tolerate_outage(log.warning, "header_not_counted", tenant_id=of["tenant_id"], query_id=of["query_id"]):
        return queries.end_part(QueryId(of["query_id"]), request.group_index)
    return False
