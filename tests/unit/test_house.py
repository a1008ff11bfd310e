"""The layout of the project: where I/O may stand, names that tell a newcomer what a file does, and how large things get."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PIPELINE = ROOT / "pipeline"
USE_CASES = ("ingestion", "retrieval", "administration", "maintenance")
DRIVERS = {
    "alembic",
    "celery",
    "httpcore",
    "httpx",
    "kombu",
    "openai",
    "psycopg",
    "pymysql",
    "redis",
    "sqlalchemy",
    "tantivy",
}
# Use cases pass connections on, channels and the composition root hold them, and these two folders are stores as a whole.
_MAY_HOLD_CONNECTIONS = {*USE_CASES, "channels", "database", "keyword_index"}
_ROOT_FILES_WITH_CONNECTIONS = {"resources.py"}
_TYPES_ONLY = {"models/live_spaces.py"}  # names SQLAlchemy's Engine in a signature


def modules(root: str) -> Iterator[Path]:
    """Yield every module below a folder of the project but the migrations, as a path from the project's root."""
    for path in sorted((ROOT / root).rglob("*.py")):
        if "migrations" not in path.parts and path.name != "__init__.py":
            yield path.relative_to(ROOT)


def files() -> Iterator[Path]:
    """Yield every module of `pipeline`, as a path below it."""
    for path in modules("pipeline"):
        yield path.relative_to("pipeline")


def imported(path: Path) -> set[str]:
    """The packages that a module imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((PIPELINE / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def is_pure(path: Path) -> bool:
    return not (
        path.stem.endswith(("_store", "_client"))
        or path.parts[0] in _MAY_HOLD_CONNECTIONS
        or str(path) in _ROOT_FILES_WITH_CONNECTIONS | _TYPES_ONLY
    )


class DescribeDrivers:
    @pytest.mark.parametrize("path", [path for path in files() if is_pure(path)], ids=str)
    def it_imports_none_outside_stores_and_clients(self, path):
        assert not imported(path) & DRIVERS


class DescribeServers:
    def it_tells_mysql_from_mariadb_and_old_from_new_in_one_folder(self):
        marks = re.compile(r"server_version_info|version_comment|SELECT VERSION\(\)")
        asking = [path for path in files() if marks.search((PIPELINE / path).read_text(encoding="utf-8"))]
        assert {path.parts[0] for path in asking} == {"database"}


class DescribeNames:
    def it_uses_every_file_name_once(self):
        places: defaultdict[str, list[str]] = defaultdict(list)
        for path in files():
            places[path.stem].append(str(path))
        assert {stem: found for stem, found in places.items() if len(found) > 1} == {}

    def it_uses_every_class_name_once(self):
        places: defaultdict[str, list[str]] = defaultdict(list)
        for path in files():
            for node in ast.parse((PIPELINE / path).read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(str(path))
        assert {name: found for name, found in places.items() if len(found) > 1} == {}

    @pytest.mark.parametrize("folder", USE_CASES)
    def it_names_use_cases_by_verbs_and_never_by_gerunds(self, folder):
        stems = [path.stem for path in files() if path.parts[0] == folder]
        assert len(stems) > 10
        assert [stem for stem in stems if re.search(r"ing(_|$)", stem)] == []

    def it_names_no_file_after_its_folder(self):
        assert [str(path) for path in files() if len(path.parts) > 1 and path.stem == path.parts[-2]] == []
