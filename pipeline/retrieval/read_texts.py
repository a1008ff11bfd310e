"""Read from MySQL for an answer: within the query's time, and behind a circuit breaker of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from pipeline.database.engines import outage_of
from pipeline.errors import CircuitOpen, PipelineError, TooLate, Unavailable
from pipeline.query.request import Query
from pipeline.resources import Resources
from pipeline.retrieval.ask_channels import RESERVE_S, aside

T = TypeVar("T")

PART: Final = "texts"  # the name of the circuit in logs and metrics
_OVERDUE_S: Final = 0.15  # seconds for reads of an answer that is assembled after its deadline


def read_in_time(query: Query, use: Resources, read: Callable[[], T]) -> T:
    """Return the result of ``read``, waiting no longer than the query allows. Raises its errors, TooLate, and
    CircuitOpen if MySQL failed a moment ago for this tenant or for several, or if other reads hang in this process."""
    patience_s = use.settings.recall_timeout_ms / 1000
    with use.bulkhead.place(PART):
        ticket = use.breakers.enter(PART, query.tenant_id)
        if ticket is None:
            raise CircuitOpen("texts are not read for a while, because MySQL failed repeatedly")
        left_s = query.deadline.before(RESERVE_S).left_s()
        failed = False
        try:
            if left_s > 2 * patience_s and use.reading:  # the client's timeout is short enough; no thread is needed
                return read()
            return aside(read).result(timeout=max(_OVERDUE_S, min(left_s, patience_s)))
        except TimeoutError:
            failed = left_s >= patience_s  # the timeout of a query that came too late proves nothing about MySQL
            if (outage := outage_of(use.mysql)) is not None:
                outage.suspect()
            raise TooLate("MySQL did not answer within the time that was left") from None
        except PipelineError as error:
            failed = isinstance(error, Unavailable)
            raise
        finally:
            use.breakers.leave(ticket, failed=failed)
