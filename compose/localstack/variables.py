"""KEY=value files and generated passwords, readable by their owner only."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Replace ``path`` in one step with a file that only its owner can read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    new.replace(path)


def dump(values: Mapping[str, str]) -> str:
    """``values`` as KEY=value lines, in the order given."""
    return "".join(f"{name}={value}\n" for name, value in values.items())


def parse(text: str) -> dict[str, str]:
    """KEY=value lines back into a mapping; empty lines and comments are passed over."""
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}


def read(path: Path) -> dict[str, str]:
    """The variables in ``path``; none when there is no such file."""
    return parse(path.read_text(encoding="utf-8")) if path.is_file() else {}


def passwords(path: Path, names: Iterable[str]) -> dict[str, str]:
    """One password per name, made at the first call and the same ever after. Letters, digits, `-` and `_` only."""
    known: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    missing = [name for name in names if name not in known]
    if missing:
        known |= {name: f"cw{secrets.token_urlsafe(24)}" for name in missing}
        write_private(path, json.dumps(known, indent=1) + "\n")
    return known
