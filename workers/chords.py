"""The part of Celery's result backend that chords need. The query's own hash counts the parts (`pipeline.query.query_store`),
and no result is stored: nothing reads one."""

from __future__ import annotations

from typing import Any

from celery import states
from celery.backends.base import BaseBackend
from celery.canvas import maybe_signature


class ChordBackend(BaseBackend):  # type: ignore[misc]  # Celery has no types
    """Calls the callback of a chord after the header that returns True, which says that every header has reported."""

    def apply_chord(self, header_result_args: Any, body: Any, **options: Any) -> None:
        """Keep nothing of a chord that is about to be sent."""

    def on_chord_part_return(self, request: Any, state: str, result: Any, **_: Any) -> None:
        """Call the callback after the last header. One that raised could not report: the deadline answers its query."""
        if state == states.SUCCESS and result is True:
            maybe_signature(request.chord, app=self.app).delay()

    def store_result(self, *arguments: Any, **options: Any) -> None:
        """Store nothing."""

    def as_uri(self, *_: Any, **__: Any) -> str:
        """Return the name that Celery logs."""
        return "chordwise"
