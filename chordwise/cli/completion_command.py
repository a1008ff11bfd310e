"""``chordwise completion``: what a shell needs to complete commands and options."""

from __future__ import annotations

import enum
import os
import sys
from typing import Annotated

import typer
from typer.completion import completion_init, get_completion_script  # type: ignore[attr-defined]

from chordwise.cli import screen

PROGRAM = "chordwise"
ASKED_BY_SHELL = "_CHORDWISE_COMPLETE"  # the script that is printed here sets it and calls us again


class Shell(enum.StrEnum):
    """Shells that can complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


_INSTALL = {
    Shell.BASH: '# In ~/.bashrc: eval "$(chordwise completion bash)"',
    Shell.ZSH: '# In ~/.zshrc, after compinit: eval "$(chordwise completion zsh)"',
    Shell.FISH: "# Once: chordwise completion fish > ~/.config/fish/completions/chordwise.fish",
}


def completion(
    shell: Annotated[Shell, typer.Argument(help="Your shell.", show_choices=True)],
    as_json: screen.Json = False,
) -> None:
    """Print a script that completes commands and options; its first line says where to put it.

    The words come from the program itself, so they need no update with it, and no server is asked.
    """
    script = get_completion_script(prog_name=PROGRAM, complete_var=ASKED_BY_SHELL, shell=shell.value)
    if as_json:
        screen.print_json({"shell": shell.value, "install": _INSTALL[shell].lstrip("# "), "script": script})
    else:
        sys.stdout.write(f"{_INSTALL[shell]}\n{script}\n")


def prepare() -> None:
    """Let the shell's question be understood, if it is one."""
    if ASKED_BY_SHELL in os.environ:
        completion_init()
