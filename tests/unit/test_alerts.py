"""The alert rules: what they watch is there, and Prometheus can read them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import fakeredis
import pytest
import yaml
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from api_gateway.http.metrics import FleetMetrics, LedgerMetrics
from pipeline.database.expiring_record_store import WorkerHeartbeats
from pipeline.database.worker_heartbeats import DiskSpace, ProcessSign
from pipeline.documents.document_views import KINDS, Totals
from pipeline.jobs.job_views import BACKLOG_STATES, LedgerBacklog
from pipeline.keyword_index.indexer_facts import IndexerFacts
from pipeline.keyword_index.indexer_report_store import IndexerReports
from pipeline.metrics.definitions import METRICS
from pipeline.resources import Resources
from pipeline.settings import load
from tests.support.repository.project import ROOT
from tests.support.servers.tools_for_tests import promtool

RULES = [
    rule
    for group in yaml.safe_load((ROOT / "compose/prometheus/alerts.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
_GATEWAY_LABELS = ("method", "route", "status")
_NAME = re.compile(r"\b(?:chordwise|recall)_[a-z_]+\b")


@pytest.fixture(scope="module")
def page() -> Iterator[dict[str, set[str]]]:
    """Every sample name of a page on which everything has something to tell, with its labels."""
    client = fakeredis.FakeRedis()
    use = Resources(load())
    use.__dict__["quick_redis"] = client
    for spec in METRICS.values():
        labels = dict.fromkeys(spec.labels, "x")
        if spec.kind == "histogram":
            use.meter.observe(spec.name, 1.0, **labels)
        else:
            use.meter.count(spec.name, **labels)
    use.meter.flush()
    indexer = IndexerFacts(host="x", lag_s=1.0, lag_revisions=1, built=1.0, failing=0, disk_bytes=1)
    IndexerReports(client).write(indexer)
    WorkerHeartbeats(client).sign(
        ProcessSign(host="x", name="x", serves=("x",), disks=(DiskSpace(holds="x", free_bytes=1, total_bytes=2),))
    )
    fleet, ledger = FleetMetrics(), LedgerMetrics()
    fleet.read(use, client)
    totals = Totals(counted=dict.fromkeys([*KINDS, "repaired", "chunks"], 1), last_run=1.0)
    backlog = LedgerBacklog(
        items=dict.fromkeys(BACKLOG_STATES, 1),
        oldest_s=dict.fromkeys(BACKLOG_STATES, 1.0),
        dead_letters={"rejected": 1},
    )
    ledger.take(backlog, totals)
    registry = CollectorRegistry()
    for each in (fleet, ledger):
        registry.register(each)  # type: ignore[arg-type]
    text = generate_latest(registry).decode() + generate_latest(REGISTRY).decode()
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        found.setdefault(family.name, set())
        found.setdefault(f"{family.name}_total", set())
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    yield found
    use.meter.close()
    client.close()


class DescribeAlerts:
    @pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
    def it_watches_only_what_is_shown(self, rule: dict[str, Any], page: dict[str, set[str]]):
        watched = _NAME.findall(rule["expr"])
        assert watched or "node_filesystem_" in rule["expr"]  # of node_exporter, where there is one
        assert [name for name in watched if name not in page] == []

    @pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
    def it_selects_by_labels_that_there_are(self, rule: dict[str, Any], page: dict[str, set[str]]):
        for name, selected in re.findall(r"((?:chordwise|recall)_[a-z_]+)\{([^}]*)\}", rule["expr"]):
            wanted = set(re.findall(r"(\w+)\s*[=!]~?", selected))
            assert name.startswith("chordwise_gateway") or wanted <= page[name]

    @pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
    def it_says_how_bad_it_is_and_what_it_means(self, rule: dict[str, Any]):
        assert rule["labels"]["severity"] in {"page", "ticket"}
        assert rule["annotations"]["summary"].endswith((".", "?"))
        assert rule["expr"].count("(") == rule["expr"].count(")")

    @pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
    def it_hears_the_first_event_of_a_series_that_is_born_with_it(self, rule: dict[str, Any]):
        """``increase`` of a series that begins at 1 is 0. Series without labels, and those of each kind of difference,
        are there from the start."""
        counted = re.findall(r"increase\((\w+)(\{[^}]*\})\[(\w+)\]\)", rule["expr"])
        for name, selected, window in counted:
            series = re.escape(name + selected)
            born = rf"> 0 or .*{series}\)? unless .*{series}\[1h\] offset {window}\)\)\)+ > 0$"
            assert re.search(born, rule["expr"])
        assert counted or rule["alert"] not in {"TasksFail", "BreakerOpened"}

    def it_watches_what_the_designs_asked_for(self):
        expressions = " ".join(rule["expr"] for rule in RULES)
        for name in (
            "chordwise_queries_total",
            "recall_timeout_count",
            "recall_degrade_count",
            "chordwise_dead_letters",
        ):
            assert name in expressions


class DescribeTheRulesAtWork:
    @pytest.mark.parametrize("command", [["check", "rules", "alerts.yaml"], ["test", "rules", "alerts.test.yaml"]])
    def it_satisfies_prometheus(self, command: list[str]):
        program = promtool()
        assert program is not None, "promtool is missing; `make check` fetches it where it can"
        done = subprocess.run(
            [program, *command],
            cwd=ROOT / "compose/prometheus",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


BOARD = json.loads((ROOT / "compose/grafana/chordwise.json").read_text(encoding="utf-8"))
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
SELECTED = re.compile(r"((?:chordwise|recall)_[a-z_]+)\{([^}]*)\}")
GROUPED = re.compile(r"(?:by|without) \(([a-z_, ]+)\)")


@pytest.mark.parametrize("panel", PANELS, ids=[panel["title"] for panel in PANELS])
class DescribeTheDashboard:
    def it_draws_only_what_is_shown(self, panel: dict[str, Any], page: dict[str, set[str]]):
        for target in panel["targets"]:
            drawn = _NAME.findall(target["expr"])
            assert drawn
            assert [name for name in drawn if name not in page] == []

    def it_uses_labels_that_there_are(self, panel: dict[str, Any], page: dict[str, set[str]]):
        for target in panel["targets"]:
            names = _NAME.findall(target["expr"])
            there = set().union(*(page[name] for name in names)) | {"instance", "le", *_GATEWAY_LABELS}
            grouped = {label.strip() for found in GROUPED.findall(target["expr"]) for label in found.split(",")}
            selected = {label for _, said in SELECTED.findall(target["expr"]) for label in re.findall(r"(\w+)=", said)}
            legend = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert grouped | selected | legend <= there
            assert legend <= grouped | there
            assert target["expr"].count("(") == target["expr"].count(")")

    def it_counts_the_fleet_once(self, panel: dict[str, Any]):
        """Every gateway shows the same sums; only its own figures are added up."""
        for target in panel["targets"]:
            assert "chordwise_gateway_" in target["expr"] or "max without (instance)" in target["expr"]


class DescribeTheDashboardAsAWhole:
    def it_can_be_imported(self):
        ids = [panel["id"] for panel in BOARD["panels"]]
        assert len(set(ids)) == len(ids)
        assert BOARD["uid"] == "chordwise"
        assert {panel["datasource"]["uid"] for panel in PANELS} == {"${datasource}"}

    def it_puts_no_panel_over_another(self):
        taken = [
            (place["x"] + across, place["y"] + down)
            for place in (panel["gridPos"] for panel in BOARD["panels"])
            for across in range(place["w"])
            for down in range(place["h"])
        ]
        assert len(set(taken)) == len(taken)
        assert max(across for across, _ in taken) < 24

    def it_shows_queues_and_their_age(self):
        drawn = " ".join(target["expr"] for panel in PANELS for target in panel["targets"])
        assert "chordwise_queue_messages" in drawn
        assert "chordwise_queue_oldest_seconds" in drawn


class DescribeTheDocument:
    def it_explains_every_metric(self):
        text = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
        assert [name for name in METRICS if f"`{name}" not in text] == []

    def it_explains_every_alert(self):
        text = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
        assert [rule["alert"] for rule in RULES if rule["alert"] not in text] == []
