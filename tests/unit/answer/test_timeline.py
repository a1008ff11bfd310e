"""The parts of a run on one axis of time."""

from __future__ import annotations

from pipeline.answer.trace import timeline
from pipeline.query.understanding import ChannelRun
from pipeline.telemetry.tracing import OutsideCall

RAN = {
    "keyword": ChannelRun(100.030, "queries@a"),
    "semantic": ChannelRun(100.020, "queries@b", (OutsideCall("postgresql SELECT", 100.025, 4.0),)),
}


def parts(**changed: object) -> list[tuple[str, str, float, float]]:
    run = {
        "opened_at": 100.010,
        "ran": RAN,
        "elapsed_ms": {"keyword": 5.0, "semantic": 40.0},
        "composed_at": 100.070,
        "steps": [("fuse", 100.071, 1.5)],
        "calls": [OutsideCall("mysql SELECT", 100.075, 2.0)],
        "total_ms": 90.0,
    }
    spans = timeline(100.0, **run | changed)
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
        spans = timeline(
            100.0, opened_at=None, ran=RAN, elapsed_ms={}, composed_at=101.0, steps=[], calls=[], total_ms=1.0
        )
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
