"""KEY=value files and generated passwords, readable by their owner only."""

import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any, BinaryIO


def write_private(path: Path, text: str) -> None:
    """Replace ``path`` in one step with a file that only its owner can read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    new.replace(path)


def open_log(path: Path) -> BinaryIO:
    """Open a log for appending, which with its folder only the owner may read: servers and clients write secrets there."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.chmod(0o700)  # also one that existed before
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, 0o600)
    return os.fdopen(descriptor, "ab")


def rotate(path: Path, *, most: int) -> None:
    """Copy a log of more than ``most`` bytes to a second file, in place of an older copy, and empty it.

    Its writers append, so they go on at the beginning. Lines written between copy and emptying are lost.
    """
    if path.exists() and path.stat().st_size > most:
        copy = path.with_name(f"{path.name}.1")
        shutil.copyfile(path, copy)
        copy.chmod(0o600)
        os.truncate(path, 0)


def try_lock(file: IO[Any]) -> bool:
    """Lock an open file unless another process holds it; the system releases the lock with the file."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def dump(values: Mapping[str, str]) -> str:
    """Return ``values`` as KEY=value lines, in the order given."""
    return "".join(f"{name}={value}\n" for name, value in values.items())


def parse(text: str) -> dict[str, str]:
    """Parse KEY=value lines into a mapping; empty lines and comments are ignored."""
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}


def read(path: Path) -> dict[str, str]:
    """Return the variables in ``path``; empty without such a file."""
    return parse(path.read_text(encoding="utf-8")) if path.is_file() else {}


def passwords(path: Path, names: Iterable[str]) -> dict[str, str]:
    """Return one password per name, made at the first call and stable afterwards. Letters, digits, `-` and `_` only."""
    stored: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    missing = [name for name in names if name not in stored]
    if missing:
        stored |= {name: f"cw{secrets.token_urlsafe(24)}" for name in missing}
        write_private(path, json.dumps(stored, indent=1) + "\n")
    return stored
