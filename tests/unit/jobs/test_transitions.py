"""The table of transitions: complete, and the only way in which the code changes a state."""

from __future__ import annotations

import re

from pipeline.jobs.states import TRANSITIONS, Move
from pipeline.records import ItemState
from tests.support.repository.project import ROOT

_OPEN = {ItemState.QUEUED, ItemState.RUNNING}
_PICTURE = (ROOT / "docs/ingestion.md").read_text(encoding="utf-8")


def test_every_move_has_its_line():
    assert set(TRANSITIONS) == set(Move)


def test_every_state_can_be_reached_and_every_open_one_left():
    reached, found = set(), {ItemState.QUEUED, ItemState.SUCCEEDED, ItemState.FAILED}
    while found - reached:
        reached |= found
        found = {target for sources, target in TRANSITIONS.values() if reached & set(sources)}
    assert reached == set(ItemState)
    assert {state for sources, _ in TRANSITIONS.values() for state in sources} >= _OPEN


def test_only_its_owner_opens_what_is_final_and_never_what_succeeded():
    reopening = {move for move, (sources, _) in TRANSITIONS.items() if set(sources) - _OPEN}
    assert reopening == {Move.REPLAY}
    assert ItemState.SUCCEEDED not in TRANSITIONS[Move.REPLAY][0]


def test_no_statement_writes_a_state_past_the_table():
    written = re.compile(r"UPDATE job_items\b.*?(?:\)|\n\n)", re.DOTALL)
    for path in (ROOT / "pipeline").rglob("*.py"):
        if "migrations" in path.parts:
            continue
        for statement in written.findall(path.read_text(encoding="utf-8")):
            assignments = statement.partition("WHERE")[0]
            assert not re.search(r"\bstate\s*=", assignments), f"{path.name}: {statement[:80]}"


def test_every_move_is_in_the_picture():
    assert [move for move in Move if f"`{move}`" not in _PICTURE] == []
    assert [state for state in ItemState if f"`{state}`" not in _PICTURE] == []
