"""The layout of `api_gateway`: names that a newcomer can guess, tests that mirror the folders, no transactions."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tests.support.repository.project import ROOT

GATEWAY = ROOT / "api_gateway"
# Routes call use cases; these still read or write stores themselves.
OPEN_TRANSACTIONS = {
    "http/idempotency.py",
    "live/doctor_facts.py",
    "live/job_feed.py",
    "resources/health.py",
}
AT_THE_ROOT = {"__init__", "__main__", "app", "gateway"}


def files() -> list[Path]:
    return [path for path in sorted(GATEWAY.rglob("*.py")) if path.name != "__init__.py"]


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

    def it_opens_no_transaction_but_where_listed(self):
        opens = re.compile(r"\b(unit_of_work|reading)\(|gateway\.ask\(")
        found = {str(path.relative_to(GATEWAY)) for path in files() if opens.search(path.read_text(encoding="utf-8"))}
        assert found == OPEN_TRANSACTIONS
