"""``chordwise completion``: scripts for the completion of commands and options."""

import sys
from typing import Annotated, Literal

from typer import Argument
from typer.completion import completion_init, get_completion_script  # type: ignore[attr-defined]

from chordwise.cli import screen

PROGRAM = "chordwise"
ASKED_BY_SHELL = "_CHORDWISE_COMPLETE"  # set by the printed script when it calls this program


Shell = Literal["bash", "zsh", "fish"]
_INSTALL: dict[Shell, str] = {
    "bash": '# In ~/.bashrc: eval "$(chordwise completion bash)"',
    "zsh": '# In ~/.zshrc, after compinit: eval "$(chordwise completion zsh)"',
    "fish": "# Once: chordwise completion fish > ~/.config/fish/completions/chordwise.fish",
}


def completion(shell: Annotated[Shell, Argument(help="Your shell.", show_choices=True)]) -> None:
    """Print a script that completes commands and options; its first line says where to put it.

    The words come from the program itself, so they need no update with it, and no server is asked.
    """
    script = get_completion_script(prog_name=PROGRAM, complete_var=ASKED_BY_SHELL, shell=shell)
    if screen.as_json():
        screen.print_json({"shell": shell, "install": _INSTALL[shell].lstrip("# "), "script": script})
    else:
        sys.stdout.write(f"{_INSTALL[shell]}\n{script}\n")


def prepare() -> None:
    """Initialise completion, for the process that a shell's completion script runs."""
    completion_init()
