"""The layout of `pipeline`: where I/O may stand, and names that tell a newcomer what a file does."""

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
_MOST_FILES = 25


def files() -> Iterator[Path]:
    """Every module of `pipeline` but the migrations, as paths below it."""
    for path in sorted(PIPELINE.rglob("*.py")):
        short = path.relative_to(PIPELINE)
        if "migrations" not in short.parts and path.name != "__init__.py":
            yield short


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


class DescribeFolders:
    def it_holds_no_more_files_than_fit_on_a_screen(self):
        counts: defaultdict[str, int] = defaultdict(int)
        for path in files():
            counts[str(path.parent)] += 1
        assert {folder: count for folder, count in counts.items() if count > _MOST_FILES} == {}
