"""What operators look at, asked over HTTP: figures, and the rows of the audit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import httpx
from prometheus_client.parser import text_string_to_metric_families

T = TypeVar("T")


def figure(client: httpx.Client, name: str, **labels: str) -> float | None:
    """The samples of this name that have these labels, added up; None if there are none."""
    page = client.get("/v1/metrics")
    assert page.status_code == 200, page.text
    lines = [line for line in page.text.splitlines() if line.startswith(name)]  # to parse all takes a tenth of a second
    found = [
        sample.value
        for family in text_string_to_metric_families("\n".join([*lines, ""]))
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    return sum(found) if found else None


def eventually(look: Callable[[], T], *, within_s: float = 15.0) -> T:
    """What ``look`` gives, once it is something; fails when it stays nothing."""
    ends = time.monotonic() + within_s
    while not (found := look()):
        assert time.monotonic() < ends, f"nothing came within {within_s} s"
        time.sleep(0.4)
    return found


def audited(client: httpx.Client, request_id: str) -> dict[str, Any]:
    """The audit's row of the search with this request id, once it is there."""

    def look() -> list[dict[str, Any]]:
        page = client.get("/v1/audit", params={"action": "search", "limit": 200})
        assert page.status_code == 200, page.text
        return [row for row in page.json()["data"] if row["request_id"] == request_id]

    [row] = eventually(look)
    return row
