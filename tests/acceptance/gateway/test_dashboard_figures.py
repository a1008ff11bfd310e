"""The dashboard for Grafana over a real Prometheus that reads the stack's gateway."""

import os
import time
from pathlib import Path

import httpx
import pytest

from compose.pictures.dashboard import PANELS, Figures, scraped
from pipeline.metrics.definitions import METRICS
from pipeline.records import Namespace
from pipeline.resources import Resources

_WITHIN_S = 30.0
_LABELS = {"result": "hit", "state": "failure"}  # those that panels select


def _record_one_of_each(use: Resources) -> None:
    """A stack in order has no breaker that opened and no task that failed."""
    for spec in METRICS.values():
        labels = {label: _LABELS.get(label, "of_a_test") for label in spec.labels}
        if spec.kind == "histogram":
            use.meter.observe(spec.name, 1.0, **labels)
        else:
            use.meter.count(spec.name, **labels)
    use.meter.flush()


def _wait_for_scrapes(figures: Figures, count: int) -> None:
    until = time.monotonic() + _WITHIN_S
    while figures.count_scrapes() < count:
        assert time.monotonic() < until, "Prometheus does not read the gateway"
        time.sleep(0.3)


class DescribeTheDashboardOverPrometheus:
    @pytest.mark.thorough
    def it_has_figures_in_every_panel(self, use: Resources, client: httpx.Client, namespace: Namespace, tmp_path: Path):
        with scraped(os.environ["CHORDWISE_URL"], tmp_path, every_s=1) as figures:
            for times in (1, 2, 3):
                _record_one_of_each(use)
                client.post("/v1/rag/query", json={"query_text": "a pump", "namespaces": [namespace]})
                _wait_for_scrapes(figures, 2 * times)
            at = figures.at()
            drawn = {
                (panel["title"], target["refId"]): figures.lines(target, at)
                for panel in PANELS
                for target in panel["targets"]
            }
        empty = [
            name for name, lines in drawn.items() if all(value is None for line in lines for value in line["values"])
        ]
        assert empty == []
        assert all(line["name"] for lines in drawn.values() for line in lines)
