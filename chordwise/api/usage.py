"""What embedding has cost, as the server answers it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from chordwise.errors import UnexpectedAnswer
from chordwise.records import Result, decode
from chordwise.resource import Requesting
from chordwise.transport import Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageCounts(Result):
    """``texts`` were sent in ``requests`` and counted as ``tokens`` by whoever embedded them. ``cached`` texts were known
    already and would have been about ``saved_tokens``. ``cost`` is in the operator's currency."""

    tokens: int = 0
    requests: int = 0
    texts: int = 0
    cached: int = 0
    saved_tokens: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow(UsageCounts):
    """The counts of one day, job, model or purpose; ``key`` says which."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport(Result):
    """What embedding cost between two days, both included."""

    by: str
    total: UsageCounts
    data: tuple[UsageRow, ...]


class UsageOperations(Requesting):
    """The part of ``Operations`` that asks what things cost."""

    def usage(
        self, *, start: date | str | None = None, end: date | str | None = None, by: str = "day"
    ) -> Steps[UsageReport]:
        """What embedding cost between two days (UTC, both included; default: this month), ``by`` day, job, model or
        purpose."""
        asked = {"from": start, "to": end, "by": by, "limit": 200}
        report: UsageReport | None = None
        rows: tuple[UsageRow, ...] = ()
        cursor: str | None = None
        while True:
            page = (yield from self._request("GET", "/v1/usage", params={**asked, "cursor": cursor})).json()
            if not isinstance(page, dict):
                raise UnexpectedAnswer("/v1/usage does not answer with an object")
            found = decode(UsageReport, page)
            report, rows = report or found, rows + found.data
            cursor = page.get("next_cursor")
            if not cursor:
                return UsageReport(by=report.by, total=report.total, data=rows, raw=report.raw)
