"""Which commands with which options a text or a test runs, as the command line itself understands them."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import typer

from chordwise.cli import app

PROGRAM = "chordwise"
_CALLED = re.compile(rf"(?:^|[ /(]){PROGRAM} ([^|;&#<>)\n]*)", re.MULTILINE)
_RUNNERS = frozenset({"run", "command", "call", "called", "says", "chordwise"})


class Use(NamedTuple):
    """A command, without the program's name, and the options it is given by their first names."""

    path: tuple[str, ...]
    options: frozenset[str] = frozenset()


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that does something, with the words that lead to it."""
    below = getattr(command, "commands", None)
    if below is None:
        yield path, command
        return
    for name, each in below.items():
        yield from leaves(each, (*path, name))


@cache
def commands() -> dict[tuple[str, ...], Any]:
    """Every command by the words that lead to it."""
    return dict(leaves(typer.main.get_command(app)))


def use_of(words: Sequence[str]) -> Use | None:
    """The command that these words run. Raises KeyError for an option that it does not have."""
    for length in (2, 1):
        path = tuple(words[:length])
        if path in commands():
            names = {
                name: each.opts[0] for each in commands()[path].params for name in (*each.opts, *each.secondary_opts)
            } | {"--help": "--help"}
            given = (word.split("=")[0] for word in words[length:] if word.startswith("-") and len(word) > 1)
            return Use(path, frozenset(names[word] for word in given))
    return None


def uses_of_shell(text: str) -> set[Use]:
    """Return the commands that a piece of shell runs."""
    return {use for words in _CALLED.findall(text) if (use := use_of(shlex.split(words)))}


def uses_of_test(path: Path) -> set[Use]:
    """Return the commands that a test runs with literal words in a call: ``run(["jobs", job_id, "--watch"])``."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _RUNNERS:
            given = [each for argument in node.args for each in getattr(argument, "elts", [argument])]
            words = [each.value if isinstance(each, ast.Constant) else "" for each in given]
            try:
                use = use_of([str(word) for word in words])
            except KeyError:  # a test may call it wrongly on purpose
                continue
            found |= {use} - {None}
    return found
