"""The order in which processes of one host get its processors: the gateway and the stores, then queries, then the rest."""

import subprocess
import sys
from pathlib import Path

import pytest

from workers.priorities import Niceness

_GIVE_WAY = """
import subprocess, sys
from workers.priorities import Niceness, give_way
for name in sys.argv[1:]:
    give_way(Niceness[name])
print(subprocess.run(["nice"], capture_output=True, text=True, check=True).stdout)
"""


def priority_after(*kinds: str) -> int:
    """Return the priority that a process hands on to its children after it gave way as one of these kinds of work."""
    command = ["setsid", "--wait", "nice", "-n", "0", sys.executable, "-c", _GIVE_WAY, *kinds]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def it_runs_queries_below_the_gateway_and_ingestion_below_queries():
    """A process that begins with a lower priority, as under a test run that gives way itself, keeps it."""
    inherited = priority_after()
    assert 0 < Niceness.QUERIES < Niceness.BACKGROUND
    assert priority_after("QUERIES") == max(inherited, Niceness.QUERIES)
    assert priority_after("BACKGROUND") == max(inherited, Niceness.BACKGROUND)


@pytest.mark.parametrize("kinds", [("QUERIES", "BACKGROUND"), ("BACKGROUND", "QUERIES"), ("BACKGROUND", "BACKGROUND")])
def it_adds_nothing_to_the_priority_of_a_parent(kinds):
    assert priority_after(*kinds) == priority_after("BACKGROUND")


def it_leaves_the_priority_of_a_terminal_alone():
    """Linux shares out processor time by session first."""
    group = Path("/proc/self/autogroup")
    before = group.read_text() if group.exists() else ""
    subprocess.run([sys.executable, "-c", _GIVE_WAY, "BACKGROUND"], capture_output=True, check=True)
    assert (group.read_text() if group.exists() else "") == before
