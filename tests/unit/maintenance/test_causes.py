"""One cause, one red line: what follows from it is folded, alike for the doctor and `/readyz`."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from pipeline.database.worker_heartbeats import ProcessSign, ProcessState
from pipeline.errors import StoreFull, StoreUnavailable
from pipeline.maintenance import doctor, find_causes
from pipeline.maintenance.doctor import CheckResult, Severity
from tests.support.repository.project import ROOT

OK, UNKNOWN, FAILED = Severity.OK, Severity.UNKNOWN, Severity.FAILED


def part(name: str, condition: str = "", **more: frozenset[str]) -> CheckResult:
    severity = FAILED if condition else OK
    return CheckResult(check=name, severity=severity, detail="", is_part=True, condition=condition, **more)


PARTS = [part(name) for name in find_causes.NAMES]
SOUND = [
    *(doctor.ok(check, "fine") for check in ("queue:recall", "queue:upkeep", "workers_silent", "last_sweep")),
    *(doctor.ok(check, "fine") for check in ("keyword_index", "schema", "vectors", "clock:mysql", "connections:mysql")),
]


def folded(*broken: CheckResult) -> dict[str, CheckResult]:
    names = {finding.check for finding in broken}
    found = [*(each for each in [*PARTS, *SOUND] if each.check not in names), *broken]
    return {finding.check: finding for finding in find_causes.fold(found)}


def causes(*broken: CheckResult) -> list[str]:
    return [finding.check for finding in find_causes.causes(list(folded(*broken).values()))]


DEAF = doctor.failed("queue:recall", "no worker listens to it", "start one")
NO_SWEEP = doctor.failed("last_sweep", "90 s ago", "see that a clock runs")
NO_INDEX = doctor.warning("keyword_index", "no indexer reports", "start one")


class DescribeFolding:
    def it_changes_nothing_while_all_is_well(self):
        assert folded() == {finding.check: finding for finding in [*PARTS, *SOUND]}

    @pytest.mark.parametrize(
        ("broken", "unjudged"),
        [
            (part("mysql", "does not answer"), {"schema", "vectors", "clock:mysql", "connections:mysql"}),
            (part("postgres", "cannot be used"), {"schema", "vectors"}),
            (
                part("redis", "is full"),
                {"queue:recall", "queue:upkeep", "workers_silent", "last_sweep", "keyword_index"},
            ),
            (part("broker", "does not answer"), {"queue:recall", "queue:upkeep", "workers_silent"}),
        ],
    )
    def it_judges_nothing_that_needs_an_unsound_part(self, broken, unjudged):
        found = folded(broken)
        assert {check for check, each in found.items() if each.severity is UNKNOWN} == unjudged
        assert {each.cause for each in found.values() if each.severity is UNKNOWN} == {broken.check}
        sentence = f"cannot be judged while {find_causes.NAMES[broken.check]} {broken.condition}"
        assert {found[check].detail for check in unjudged} == {sentence}
        assert causes(broken) == [broken.check]

    def it_calls_a_full_redis_that_is_the_broker_too_one_cause(self):
        redis = part("redis", "is full", explains=frozenset({"broker"}))
        found = folded(redis, part("broker", "is full"), DEAF, NO_SWEEP)
        assert causes(redis, part("broker", "is full"), DEAF, NO_SWEEP) == ["redis"]
        assert found["queue:recall"].detail == "cannot be judged while Redis is full"
        assert (found["broker"].cause, found["broker"].detail) == ("redis", "it is on the same server as Redis")

    def it_keeps_the_words_of_a_failure_that_another_one_explains(self):
        frozen = ProcessState(sign=ProcessSign(host="a", name="q@a", serves=("recall",)), silent_s=30.0)
        found = folded(doctor.silent([frozen]), DEAF)
        assert causes(doctor.silent([frozen]), DEAF) == ["workers_silent"]
        assert found["queue:recall"] == replace(DEAF, cause="workers_silent")
        assert found["workers_silent"].severity is FAILED

    def it_explains_that_no_worker_runs_by_those_that_fell_silent(self):
        signs = [ProcessSign(host="a", name=f"{queue}@a", serves=(queue,)) for queue in ("recall", "ingest")]
        recall, ingest = (ProcessState(sign=sign, silent_s=30.0) for sign in signs)
        none = doctor.no_worker({"recall": "queries", "ingest": "ingest"}, signs)
        assert causes(doctor.silent([recall, ingest]), none, DEAF) == ["workers_silent"]
        assert set(causes(doctor.silent([recall]), none, DEAF)) == {"queues", "workers_silent"}

    @pytest.mark.parametrize(("served", "follows"), [("clock", NO_SWEEP), ("upkeep", NO_SWEEP), ("indexer", NO_INDEX)])
    def it_explains_a_sweep_and_an_index_by_the_process_that_is_gone(self, served, follows):
        gone = ProcessState(sign=ProcessSign(host="a", name="x", serves=(served,)), silent_s=30.0)
        assert causes(doctor.silent([gone]), follows) == ["workers_silent"]

    def it_explains_a_late_sweep_by_the_database_that_it_waits_for(self):
        assert folded(part("mysql", "does not answer"), NO_SWEEP)["last_sweep"].cause == "mysql"
        deaf = doctor.failed("queue:upkeep", "no worker listens to it", "start one")
        assert causes(deaf, NO_SWEEP) == ["queue:upkeep"]

    def it_keeps_two_causes_apart(self):
        assert causes(part("mysql", "does not answer"), DEAF) == ["mysql", "queue:recall"]

    def it_names_the_state_of_a_part_by_its_error(self):
        assert find_causes.condition(StoreFull("full", server="Redis")) == "is full"
        assert find_causes.condition(StoreUnavailable("away")) == "cannot be used"


def test_every_check_of_the_doctor_says_what_it_needs():
    """A check that nobody thought about would be judged by servers that do not answer."""
    tree = ast.parse((ROOT / "api_gateway/resources/doctor.py").read_text(encoding="utf-8"))
    [listed] = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "_checks"]
    named = {
        node.value.elts[0].value
        for node in ast.walk(listed)
        if isinstance(node, ast.Yield)
        and isinstance(node.value, ast.Tuple)
        and isinstance(node.value.elts[0], ast.Constant)
    }
    assert {"queues", "vectors"} <= named
    of_this_host = {"query_lane", "recognition", "result_expiry", "flower"}
    assert {check for check in named if not find_causes.needs_of(check)} == of_this_host
