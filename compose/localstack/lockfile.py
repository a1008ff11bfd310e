"""Names and parser of the lock files: an entry is a pin, its hashes and its remarks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

RUNTIME_LOCKS = ("requirements.lock", "requirements-local.lock")
DEV_LOCK = "requirements-dev.lock"
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)")


def pins(text: str) -> dict[str, str]:
    """Return the version of each package, by its name in small letters."""
    return {name: version for name, version, _ in _entries(text)}


def without(text: str, names: set[str]) -> str:
    """Return the text without the entries of ``names``; comments between entries are removed as well."""
    return "".join(entry for name, _, entry in _entries(text) if name not in names)


def shares(texts: Iterable[str], count: int) -> list[str]:
    """Return the entries of all ``texts`` distributed over up to ``count`` texts; none of them is empty."""
    entries = [entry for text in texts for _, _, entry in _entries(text)]
    dealt = ("".join(entries[first::count]) for first in range(count))
    return [text for text in dealt if text]


def _entries(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, version and whole text of each entry."""
    name, version, lines = "", "", [""]
    for line in text.splitlines(keepends=True):
        if pin := _PIN.match(line):
            if name:
                yield name, version, "".join(lines)
            name, version, lines = pin[1].lower(), pin[2], [line]
        elif line.startswith(" "):
            lines.append(line)
    if name:
        yield name, version, "".join(lines)
