"""The layout of `api_gateway`: folders that fit on a screen, and names that a newcomer can guess."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tests.support.repository.project import ROOT

GATEWAY = ROOT / "api_gateway"
AT_THE_ROOT = {"__init__", "__main__", "app", "gateway"}
_MOST_FILES, _MOST_LINES = 25, 400


def files() -> list[Path]:
    return [path for path in sorted(GATEWAY.rglob("*.py")) if path.name != "__init__.py"]


class DescribeTheGateway:
    def it_has_few_files_at_its_root(self):
        assert {path.stem for path in GATEWAY.glob("*.py")} == AT_THE_ROOT

    def it_holds_no_more_files_in_a_folder_than_fit_on_a_screen(self):
        counts = Counter(path.parent for path in files())
        assert {folder for folder, count in counts.items() if count > _MOST_FILES} == set()

    def it_holds_no_long_file(self):
        assert [path for path in files() if len(path.read_text(encoding="utf-8").splitlines()) > _MOST_LINES] == []

    def it_uses_every_file_name_once(self):
        assert {stem for stem, count in Counter(path.stem for path in files()).items() if count > 1} == set()

    def it_names_no_file_by_a_gerund(self):
        assert [path.stem for path in files() if re.search(r"(?<!embedd)ing(_|$)", path.stem)] == []

    def it_tests_each_folder_in_a_folder_of_its_name(self):
        tests = ROOT / "tests/unit/gateway"
        folders = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")}
        assert [folder for folder in folders if not (GATEWAY / folder).is_dir()] == []
