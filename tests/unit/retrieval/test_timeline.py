"""The parts of a run on one axis of time."""

from __future__ import annotations

from dataclasses import replace

from pipeline.query.understanding import ChannelRun
from pipeline.retrieval.arrived import Arrived, Journal
from pipeline.retrieval.record_trace import timeline
from pipeline.telemetry.tracing import OutsideCall
from tests.support.corpora.traces import query

RAN = {
    "keyword": ChannelRun(100.030, "queries@a"),
    "semantic": ChannelRun(100.020, "queries@b", (OutsideCall("postgresql SELECT", 100.025, 4.0),)),
}


def run_of(**changed: object) -> Arrived:
    run = {"opened_at": 100.010, "ran": RAN, "elapsed_ms": {"keyword": 5.0, "semantic": 40.0}}
    record = {"steps": [("fuse", 100.071, 1.5)], "calls": [OutsideCall("mysql SELECT", 100.075, 2.0)]}
    arrived = {name: changed.get(name, value) for name, value in run.items()}
    journal = {name: changed.get(name, value) for name, value in record.items()}
    asked = replace(query(), created_at=100.0)
    return Arrived(query=asked, envelopes={}, **arrived, journal=Journal(began_at=100.070, **journal))


def parts(**changed: object) -> list[tuple[str, str, float, float]]:
    spans = timeline(run_of(**changed), total_ms=90.0)
    return [(each.kind, f"{each.name} {each.part}".strip(), each.start_ms, each.ms) for each in spans]


class DescribeTheTimeline:
    def it_tells_waits_from_work(self):
        assert parts() == [
            ("gateway", "gateway", 0.0, 10.0),
            ("queue", "queue semantic", 10.0, 10.0),
            ("channel", "semantic semantic", 20.0, 40.0),
            ("store", "postgresql SELECT semantic", 25.0, 4.0),
            ("queue", "queue keyword", 10.0, 20.0),
            ("channel", "keyword keyword", 30.0, 5.0),
            ("queue", "queue callback", 60.0, 10.0),
            ("callback", "callback", 70.0, 20.0),
            ("step", "fuse callback", 71.0, 1.5),
            ("store", "mysql SELECT callback", 75.0, 2.0),
        ]

    def it_names_the_worker_of_a_channel(self):
        spans = timeline(run_of(opened_at=None, elapsed_ms={}, steps=[], calls=[]), total_ms=1.0)
        assert [each.worker for each in spans if each.kind == "channel"] == ["queries@b", "queries@a"]

    def it_shows_the_wait_for_channels_that_never_came_back(self):
        assert parts(ran={}, steps=[], calls=[]) == [
            ("gateway", "gateway", 0.0, 10.0),
            ("queue", "queue callback", 10.0, 60.0),
            ("callback", "callback", 70.0, 20.0),
        ]

    def it_claims_no_wait_that_it_does_not_know(self):
        assert ("queue", "queue keyword") not in {each[:2] for each in parts(opened_at=None)}
        early = {"keyword": ChannelRun(100.005, "a")}  # by a clock that is behind
        assert [each[0] for each in parts(ran=early)][:2] == ["gateway", "channel"]
