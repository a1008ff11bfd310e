"""The servers that the doctor calls tested are those that `make matrix` has run tests on."""

from __future__ import annotations

import re

import pytest

from pipeline.maintenance.doctor import TESTED_SERIES, Severity, servers
from tests.matrix import COLUMNS, PAGE

PASSED = [
    cells[2].strip()
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| `") and (cells := line.split("|"))[8].strip() == "passed"
]
SERVERS = sorted({server for row in PASSED for server in row.split("; ")})


class DescribeTestedServers:
    def it_has_a_row_for_each_column(self):
        names = re.findall(r"^\| `([\w.-]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
        assert names == [column.name for column in COLUMNS]

    @pytest.mark.parametrize("server", SERVERS)
    def it_calls_every_server_of_the_page_tested(self, server):
        name, _, version = server.rpartition(" ")
        assert servers({name: version}).severity == Severity.OK

    def it_calls_no_other_series_tested(self):
        assert {
            f"{name} {series}"
            for name, several in TESTED_SERIES.items()
            for series in several
            if not any(f"{server}.".startswith(f"{name} {series}.") for server in SERVERS)
        } == set()
