"""Groups of commands: help whose lines are not cut, and a first level that loads a command's module when it is used."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, MutableMapping
from typing import Any

import typer
from typer.core import TyperGroup


class CommandGroup(TyperGroup):
    """A group whose help shows the whole first sentence of each command, wrapped."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands below the help."""
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, first_sentence(command.help)) for name, command in commands if command and not command.hidden]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


class LoadedCommands(MutableMapping[str, Any]):
    """The commands of ``table`` by name, in its order. A value is a module below this package and, after a colon, its
    command: a function or a Typer. It is imported and built when it is first asked for, because building all of them
    takes longer than a query."""

    def __init__(self, table: dict[str, str]) -> None:
        self._table = table
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            module, _, attribute = self._table[name].partition(":")
            target = getattr(importlib.import_module(f"chordwise.cli.{module}"), attribute)
            self._built[name] = built(name, target)
        return self._built[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._built[name] = command

    def __delitem__(self, name: str) -> None:
        del self._table[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


def built(name: str, target: Any) -> Any:
    """Return the click command of a function or of a Typer."""
    holder = typer.Typer(add_completion=False, rich_markup_mode=None)
    if isinstance(target, typer.Typer):
        holder.add_typer(target, name=name, cls=CommandGroup)
    else:
        holder.command(name)(target)
    return typer.main.get_group(holder).commands[name]


def first_sentence(text: str | None) -> str:
    """Return the first sentence of a help text."""
    paragraph = " ".join((text or "").strip().split("\n\n")[0].split())
    sentence, stop, _ = paragraph.partition(". ")
    return sentence + stop.rstrip() if stop else paragraph
