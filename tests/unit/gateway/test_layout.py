"""The layout of `api_gateway`: names that a newcomer can guess, tests that mirror the folders, no transactions."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.repository.project import ROOT

GATEWAY = ROOT / "api_gateway"
OPENING = {"begin", "connect", "raw_connection"}  # methods of an engine that begin a transaction
AT_THE_ROOT = {"__init__", "__main__", "app", "gateway"}


def files() -> list[Path]:
    return [path for path in sorted(GATEWAY.rglob("*.py")) if path.name != "__init__.py"]


def imported_modules(tree: ast.AST) -> Iterator[str]:
    """Yield the full name of every module of the project that is imported anywhere, also inside functions."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        yield from (name for name in names if (ROOT / f"{name.replace('.', '/')}.py").is_file())


class DescribeTheGateway:
    def it_has_few_files_at_its_root(self):
        assert {path.stem for path in GATEWAY.glob("*.py")} == AT_THE_ROOT

    def it_uses_every_file_name_once(self):
        assert {stem for stem, count in Counter(path.stem for path in files()).items() if count > 1} == set()

    def it_names_no_file_by_a_gerund(self):
        assert [path.stem for path in files() if re.search(r"(?<!embedd)ing(_|$)", path.stem)] == []

    def it_tests_each_folder_in_a_folder_of_its_name(self):
        tests = ROOT / "tests/unit/gateway"
        folders = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")}
        assert [folder for folder in folders if not (GATEWAY / folder).is_dir()] == []

    @pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(GATEWAY)))
    def it_imports_no_store_that_writes_and_opens_no_transaction(self, path):
        """Routes call use cases, which speak to the stores, or name a view store to read from."""
        tree = ast.parse(path.read_text(encoding="utf-8"))
        modules = imported_modules(tree)
        stores = [name for name in modules if name.endswith(("_store", ".unit_of_work"))]
        assert [name for name in stores if not name.endswith(("_view_store", ".call_store"))] == []
        assert [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in OPENING] == []
