"""Parts that need a package of somebody else's, which is installed only for who asks for it."""

from __future__ import annotations

from chordwise.errors import ChordwiseError


class MissingExtra(ChordwiseError, ImportError):
    """A package that a part of this client stands on is not installed; the sentence has the command that installs it."""


def missing(extra: str, error: ModuleNotFoundError) -> MissingExtra:
    """What to raise in place of ``error``, which an import of a package of this extra raised."""
    told = f"chordwise.{extra} needs the package {error.name}: pip install 'chordwise[{extra}]'"
    return MissingExtra(told, name=error.name)
