"""The fault matrix: whatever happens to whichever part of a query, there is an answer in time that says what it lacks.

Every cell of the table runs with one namespace, some also with three (all of them in the thorough suite), on the real
stores, with the deadline after a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from pipeline.resources import Resources
from tests.support.stacks.fault_edges import Fault
from tests.support.stacks.fault_lab import (
    CHANNELS,
    DEADLINE_S,
    NAMESPACES,
    PARTS,
    Lab,
    Outcome,
    fault_lab,
    in_two_tries,
)
from workers.tasks.recall import recall_channel

LATE_S = 0.25  # an answer may come so long after the deadline

UNAVAILABLE, UNANSWERED = "store_unavailable", "no_answer"

# The cost of each fault: the answer names one of these codes for the part at fault; None: nothing is lost.
#   exception    what the part calls is away, or answers 500
#   bug          an error that nobody thought of; of a service: an answer that is none
#   hang         no answer for longer than anybody waits
#   killed       the process that works on it is gone in the middle, and nothing is heard of it
#   redelivered  its task runs twice at the same time, the second a little later, and twice more after the answer
#   empty        there is nothing to be found; a model has nothing to say
#   slow         the answer comes late, and in time
_OF_STORES: dict[Fault, tuple[str, ...] | None] = {
    "exception": (UNAVAILABLE,),
    "bug": ("internal_error",),
    "hang": ("timeout",),
    "killed": (UNANSWERED,),
    "redelivered": None,
    "empty": None,
    "slow": None,
}

TABLE: dict[str, dict[Fault, tuple[str, ...] | None]] = {
    "keyword": _OF_STORES,
    "semantic": _OF_STORES,
    "faq": _OF_STORES,
    "api": {
        "exception": ("api_source_unavailable",),
        "bug": ("api_source_failed",),
        "hang": ("api_source_unavailable", "timeout"),  # the source's limit or the channel's, which ends first
        "killed": (UNANSWERED,),
        "redelivered": None,
        "empty": None,
        "slow": None,
    },
    "expand": {
        "exception": (
            "rewriter_unavailable",
            "timeout",
        ),  # it is asked twice, and the pause between may use up its time
        "bug": ("rewriter_unavailable", "timeout"),
        "hang": ("rewriter_unavailable", "timeout"),
        "killed": ("timeout",),
        "redelivered": None,
        "empty": None,
        "slow": None,
    },
    "rerank": {
        "exception": ("reranker_unavailable",),
        "bug": ("reranker_unavailable",),
        "hang": ("reranker_unavailable", "timeout"),
        "killed": ("timeout",),
        "redelivered": None,
        "empty": ("reranker_unavailable",),  # passages were sent and not one was scored
        "slow": None,
    },
}
# Further losses of an answer that is made at the deadline, when no time is left for these steps.
NO_TIME_FOR = {
    *((step, "timeout") for step in ("expand", "fuse", "rerank", "feedback")),
    ("expand", UNANSWERED),
}

LIMIT_MS = 400  # of the part at fault
ONE, THREE = NAMESPACES[:1], NAMESPACES
CELLS = [
    pytest.param(
        part,
        fault,
        namespaces,
        id=f"{part}-{fault}-{'one' if namespaces is ONE else 'three'}",
        marks=[] if namespaces is ONE or fault == "exception" else pytest.mark.thorough,
    )
    for part, row in TABLE.items()
    for fault in row
    for namespaces in (ONE, THREE)
]


@pytest.fixture(scope="module")
def lab(use_alone: Resources) -> Iterator[Lab]:
    with pytest.MonkeyPatch.context() as monkeypatch, fault_lab(use_alone.settings, monkeypatch) as found:
        found.warm_up()
        yield found


def check(found: Outcome, part: str, fault: Fault, namespaces: tuple[str, ...]) -> None:
    """Everything that is promised of a cell."""
    codes = TABLE[part][fault]
    assert found.answer["status"] == "succeeded"
    assert found.took_s <= DEADLINE_S + LATE_S
    assert found.overdue == (fault == "killed" and part != "expand"), "nobody waits for the deadline without need"
    also = NO_TIME_FOR if found.overdue else set()
    mine = {code for name, code in found.lost if name == part}
    assert bool(mine) == bool(codes)
    assert mine <= set(codes or ())
    assert {(name, code) for name, code in found.lost if name != part} <= also
    assert found.answer["stats"]["degraded"] == bool(found.lost)

    gone = {part} if codes or fault == "empty" else set()
    present = set(CHANNELS if found.overdue else PARTS)
    assert found.parts_present & present == present - gone
    assert {chunk["namespace"] for chunk in found.answer["chunks"]} == set(namespaces)
    for namespace in namespaces:
        there = {chunk["document_id"] for chunk in found.answer["chunks"] if chunk["namespace"] == namespace}
        assert {"button", "pair"} <= there
    assert found.later == found.stored, "the first answer stands"


class DescribeTheFaultMatrix:
    @pytest.mark.parametrize(("part", "fault", "namespaces"), CELLS)
    def it_answers_in_time_and_names_what_is_lost(self, lab, part, fault, namespaces):
        def run() -> None:
            found = lab.ask(lab.query(namespaces, {part: LIMIT_MS}), {part: fault})
            check(found, part, fault, namespaces)

        in_two_tries(run)

    @pytest.mark.parametrize("namespaces", [ONE, THREE], ids=["one", "three"])
    def it_loses_nothing_while_all_is_well(self, lab, namespaces):
        found = lab.ask(lab.query(namespaces), {})
        assert found.lost == set()
        assert found.parts_present == set(PARTS)
        assert not found.overdue

    def it_covers_every_part_and_every_fault(self):
        faults = {"exception", "hang", "killed", "redelivered", "empty", "slow"}
        assert set(TABLE) == set(PARTS)
        assert all(faults <= set(row) for row in TABLE.values())


class DescribeSeveralFaults:
    def it_has_something_to_say_when_everything_hangs(self, lab):
        def run() -> None:
            found = lab.ask(lab.query(THREE, dict.fromkeys(PARTS, 300)), dict.fromkeys(PARTS, "hang"))
            assert found.took_s <= DEADLINE_S + LATE_S
            assert found.answer["chunks"] == []
            assert {part for part, _ in found.lost} == set(PARTS) - {"rerank"}, "there was nothing to be reranked"

        in_two_tries(run)

    def it_says_which_of_the_others_there_was_no_time_for(self, lab):
        """Every channel may take longer than the query: one that hangs uses up the time of what comes after."""

        def run() -> None:
            found = lab.ask(lab.query(ONE), {"semantic": "hang"})
            assert found.took_s <= DEADLINE_S + LATE_S
            assert ("semantic", "timeout") in found.lost
            assert {part for part, _ in found.lost} <= {"semantic", "rerank", "feedback", "expand", "fuse"}
            assert {"keyword", "faq", "api"} <= found.parts_present

        in_two_tries(run)

    def it_keeps_what_a_redelivered_task_found_while_its_first_delivery_hung(self, lab):
        def run() -> None:
            found = lab.ask(lab.query(ONE, {"keyword": 300}), {"keyword": "overtaken", "semantic": "killed"})
            assert found.overdue
            assert found.took_s <= DEADLINE_S + LATE_S
            assert found.lost - NO_TIME_FOR == {("semantic", UNANSWERED)}
            assert {"keyword", "faq", "api"} <= found.parts_present

        in_two_tries(run)

    def it_counts_a_header_once_however_often_it_is_delivered(self, lab):
        query = lab.query(ONE)
        lab.gateway.queries(lab.tenant).open(query)
        first = recall_channel.run(lab.tenant, query.query_id, "keyword")
        lab.gateway.queries(lab.tenant).answer(query, b"{}")
        assert recall_channel.run(lab.tenant, query.query_id, "keyword") == first


class DescribeBugs:
    """Errors that nobody thought of, where no answer was expected to fail."""

    @pytest.mark.parametrize("channel", ["keyword", "semantic", "faq"])
    def it_does_without_the_scores_of_a_channel_that_cannot_give_them(self, lab, channel):
        found = lab.ask(lab.query(ONE), {channel: "unscored"})
        assert not found.overdue
        assert found.lost == {("fuse", "internal_error")}
        assert found.parts_present == set(PARTS)

    @pytest.mark.parametrize("part", ["expand", "rerank"])
    def it_does_without_a_model_whose_client_is_broken(self, lab, part):
        found = lab.ask(lab.query(ONE), {part: "broken"})
        assert not found.overdue
        assert found.lost == {(part, "internal_error")}
        assert found.parts_present == set(PARTS) - {part}

    def it_says_so_at_once_when_an_answer_cannot_be_put_together(self, lab):
        def count(_: str) -> int:
            raise LookupError("nobody thought of this")

        worker = replace(lab.worker)
        worker.__dict__.update({**lab.worker.__dict__, "count_tokens": count})
        found = lab.ask(lab.query(ONE), {}, use=worker)
        assert not found.overdue
        assert found.answer["status"] == "failed"
        assert found.answer["error"]["code"] == "internal_error"
        assert found.answer["chunks"] == []
        assert ("answer", "internal_error") in found.lost
