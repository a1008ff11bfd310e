"""The project's own files, read for the tests that guard them."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from workers.roles import ROLES

ROOT = Path(__file__).resolve().parents[3]
COMPOSE_TEXT = (ROOT / "compose/compose.yaml").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load(COMPOSE_TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CLIENT_PROJECT: dict[str, Any] = tomllib.loads((ROOT / "chordwise/pyproject.toml").read_text(encoding="utf-8"))
LOCKS = ("requirements.lock", "requirements-local.lock", "requirements-dev.lock")
EXAMPLE_LINES = (ROOT / ".env.example").read_text(encoding="utf-8").splitlines()
_VARIABLE = re.compile(r"\$\{(\w+)(?:(:-|:\?|-)((?:[^{}]|\$\{[^{}]*\})*))?\}")


def words(command: str | list[str] | None) -> list[str]:
    """A service's command as the words it is started with."""
    return shlex.split(command) if isinstance(command, str) else list(command or [])


def services_started_with(*first: str) -> list[str]:
    """Names of the compose services whose command begins with these words."""
    return [name for name, service in SERVICES.items() if words(service.get("command"))[: len(first)] == list(first)]


def interpolated(name: str, variables: Mapping[str, str]) -> dict[str, str]:
    """A compose service's environment as its container gets it: ``${X}``, ``${X-default}``, ``${X:-default}`` and
    ``${X:?message}`` filled in from ``variables``, and what has no value there left out. A default may hold variables."""

    def value_of(found: re.Match[str]) -> str:
        value, how = variables.get(found[1]), found[2] or ""
        if value or (value is not None and how == "-"):
            return value
        return _VARIABLE.sub(value_of, found[3]) if how.endswith("-") else ""

    environment = SERVICES[name].get("environment") or {}
    filled = {
        key: variables.get(key) if value is None else _VARIABLE.sub(value_of, str(value))
        for key, value in environment.items()
    }
    return {key: value for key, value in filled.items() if value is not None}


def queues(command: list[str]) -> set[str]:
    """The queues that a worker's command line names after -Q, or by its role."""
    pairs = list(pairwise(command))
    named = [following for flag, following in pairs if flag in ("-Q", "--queues")]
    roles = [following for flag, following in pairs if flag == "--role"]
    return {queue for names in named for queue in names.split(",")} | {
        queue.value for role in roles for queue in ROLES[role].queues
    }


def variable(setting: str) -> str:
    """The environment variable of a setting."""
    return f"CHORDWISE_{setting.upper()}"


def documented(*, commented: bool | None = None) -> dict[str, str]:
    """Variables of .env.example with their values; only those that are (or are not) commented out, if asked."""
    found = [re.fullmatch(r"(#?)([A-Z][A-Z0-9_]*)=(.*)", line) for line in EXAMPLE_LINES]
    return {each[2]: each[3] for each in found if each and commented in (None, bool(each[1]))}


def explanations() -> dict[str, str]:
    """Return the comment above each variable of .env.example; empty where there is none."""
    pairs = [(above, re.match(r"#?([A-Z][A-Z0-9_]*)=", line)) for above, line in pairwise(["", *EXAMPLE_LINES])]
    return {each[1]: above if re.match(r"# \w", above) else "" for above, each in pairs if each}


def requirement_name(requirement: str) -> str:
    """The bare name of a requirement such as ``Redis[hiredis]>=6,<7``, as package indexes compare names."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0]).lower()


def runtime_dependencies() -> set[str]:
    """The names in the dependencies of server and client, but for the client itself."""
    projects = (PROJECT["project"], CLIENT_PROJECT["project"])
    named = {requirement_name(each) for project in projects for each in project["dependencies"]}
    return named - {project["name"] for project in projects}


def locked_requirements(lock: str) -> Iterator[str]:
    """The requirements of a lock file, continuation lines joined."""
    text = (ROOT / lock).read_text(encoding="utf-8").replace("\\\n", " ")
    return (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))


@cache
def tracked_files() -> tuple[Path, ...]:
    """Every file that git tracks or would track."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if listing.returncode != 0:
        pytest.skip("not a git checkout, so there is no telling what belongs to the project")
    paths = (ROOT / name for name in listing.stdout.decode().split("\0") if name)
    return tuple(path for path in paths if path.is_file())


def code_of(markdown: str) -> str:
    """Return the code of a Markdown text, in blocks and in lines."""
    return "\n".join(re.findall(r"```.*?```|`[^`\n]+`", markdown, re.DOTALL))
