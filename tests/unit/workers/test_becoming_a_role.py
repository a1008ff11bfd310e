"""How `chordwise-server` explains itself, and how it replaces itself by a role: with allocators that spare memory."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

import pytest

from workers.server import parser

_BECOME = "import sys; from workers.server import _become; _become([sys.executable, '-c', sys.argv[1]])"
_SHOW = "import os; print(os.environ['MALLOC_ARENA_MAX'], os.environ['OPENBLAS_NUM_THREADS'])"


@pytest.mark.parametrize(("given", "shown"), [({}, "2 1"), ({"MALLOC_ARENA_MAX": "8"}, "8 1")])
def it_allocates_sparingly_unless_told_otherwise(given, shown):
    own = {
        name: value for name, value in os.environ.items() if name not in ("MALLOC_ARENA_MAX", "OPENBLAS_NUM_THREADS")
    }
    command = [sys.executable, "-c", _BECOME, _SHOW]
    done = subprocess.run(command, env=own | given, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == shown


def it_explains_every_argument_of_every_command():
    [commands] = [action for action in parser()._actions if isinstance(action, argparse._SubParsersAction)]
    unexplained = [
        f"{name} {argument.dest}"
        for name, command in commands.choices.items()
        for argument in command._actions
        if not argument.help
    ]
    assert unexplained == []
