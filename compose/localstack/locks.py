"""`make lock`: write the lock files from the two pyproject.toml.

Three layers: the requirements of every installation, PostgreSQL for the local stack, the tools. A layer is resolved
with the previous ones as constraints and repeats none of their packages, so that they can be installed together.
"""

import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from . import shell
from .places import LOCAL, PROJECTS, ROOT
from .progress import Failure, say, step

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


# Needed by some supported Pythons and not by the one that resolves; requested by name, or the lock lacks them.
_FOR_OTHER_PYTHONS = ("async-timeout>=4.0.3",)  # redis, on Python before 3.11.3
_OLDEST = (3, 11)
_LOG = LOCAL / "logs" / "lock.log"
_FLAGS = (
    "--quiet --generate-hashes --strip-extras --allow-unsafe --no-header"
    " --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options"
)


def lock(*, upgrade: bool) -> int:
    """Write the lock files anew; versions stay as they are where they can, unless ``upgrade``. Raises Failure."""
    if sys.version_info[:2] != _OLDEST:
        raise Failure(
            f"resolve with Python {_OLDEST[0]}.{_OLDEST[1]}, the oldest supported: newer ones need fewer packages"
        )
    tools = _tools()
    layers = wanted(*(tomllib.loads((ROOT / name).read_text(encoding="utf-8")) for name in PROJECTS))
    # The machine's own pip configuration must not affect the result.
    environment = {name: value for name, value in shell.plain_environment().items() if not name.startswith("PIP_")}
    environment |= {"PIP_CONFIG_FILE": "/dev/null", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    with tempfile.TemporaryDirectory() as scratch:
        earlier: list[str] = []
        for name, requirements in layers.items():
            source = Path(scratch) / name.replace(".lock", ".in")
            lines = [*requirements, *(f"-c {other}" for other in earlier)]
            source.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            if (ROOT / name).is_file() and not upgrade:
                shutil.copy(ROOT / name, Path(scratch) / name)
            compiling: list[str | Path] = [tools, "-m", "piptools", "compile", *_FLAGS.split()]
            compiling += ["--output-file", name, source.name]
            with step(name, slow=True):
                shell.run(compiling, what=f"resolving {name}", log=_LOG, environment=environment, cwd=Path(scratch))
            earlier.append(name)
        repeated: set[str] = set()
        for name in layers:
            text = without((Path(scratch) / name).read_text(encoding="utf-8"), repeated)
            repeated |= pins(text).keys()
            (ROOT / name).write_text(f"# Written by `make lock` from pyproject.toml.\n{text}", encoding="utf-8")
            say(f"  {name}: {len(pins(text))} packages")
    return 0


def wanted(server: dict[str, Any], client: dict[str, Any]) -> dict[str, list[str]]:
    """Return the requirements of each lock file, in the order in which they build on each other.

    The client itself is not locked: it is installed from this checkout.
    """
    table, extras = server["project"], server["project"]["optional-dependencies"]
    own = f"{client['project']['name']}=="
    needed = [line for line in table["dependencies"] if not line.startswith(own)]
    runtime = [*needed, *client["project"]["dependencies"], *server["build-system"]["requires"], *_FOR_OTHER_PYTHONS]
    return {RUNTIME_LOCKS[0]: runtime, RUNTIME_LOCKS[1]: list(extras["local"]), DEV_LOCK: list(extras["dev"])}


def _tools() -> Path:
    """Return pip-tools in an environment of its own, because it depends on pip's internals."""
    venv = LOCAL / "lock-tools"
    python = venv / "bin" / "python"
    if not shell.output([python, "-m", "piptools", "--version"]):
        with step("pip-tools into .local/lock-tools", slow=True):
            shell.run(
                [sys.executable, "-m", "venv", "--clear", venv], what="making an environment for pip-tools", log=_LOG
            )
            shell.run([python, "-m", "pip", "install", "-q", "pip-tools"], what="installing pip-tools", log=_LOG)
    return python
