"""The systemd units: their commands exist, every role has one, and systemd understands them where it is installed."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.repository.project import ROOT
from workers.roles import ROLES
from workers.server import parser

UNITS = ROOT / "compose/systemd"
SERVICES = sorted(UNITS.glob("*.service"))


def values(unit: Path, name: str) -> list[str]:
    """Return the values of a unit's setting, in order."""
    return re.findall(rf"^{name}=(.*)$", unit.read_text(encoding="utf-8"), re.MULTILINE)


def started() -> list[str]:
    """Return the units that the target starts."""
    return [unit for line in values(UNITS / "chordwise.target", "Wants") for unit in line.split()]


class DescribeUnits:
    @pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.name)
    def it_runs_a_command_of_the_server(self, unit):
        (line,) = values(unit, "ExecStart")
        program, *arguments = shlex.split(line.replace("%i", "ingest"))
        assert program == "/opt/chordwise/bin/chordwise-server"
        parser().parse_args(arguments)

    def it_starts_every_role_and_nothing_that_has_no_unit(self):
        for unit in started():
            assert (UNITS / re.sub(r"@[^.]+", "@", unit)).is_file(), unit
        roles = {found[1] for unit in started() if (found := re.fullmatch(r"chordwise-worker@(\w+)\.service", unit))}
        assert roles | {"queries"} == set(ROLES)
        assert {"gateway", "queries", "indexer", "clock"} <= {re.split(r"[-@.]", unit)[1] for unit in started()}

    def it_gives_each_gateway_longer_to_end_than_it_takes_for_its_requests(self):
        from api_gateway.__main__ import _SHUTDOWN_S

        (seconds,) = values(UNITS / "chordwise-gateway@.service", "TimeoutStopSec")
        assert int(seconds) > _SHUTDOWN_S

    @pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
    def it_is_understood_by_systemd(self, tmp_path):
        copied = tmp_path / "systemd"
        shutil.copytree(UNITS, copied)
        for unit in copied.glob("*.service"):  # neither the program nor the user is there
            unit.write_text(re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", unit.read_text()), encoding="utf-8")
        units = [copied / unit for unit in (*started(), "chordwise-migrate.service", "chordwise.target")]
        checked = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", *map(str, units)], capture_output=True, text=True, check=False
        )
        assert [line for line in checked.stderr.splitlines() if "chordwise" in line] == []
        assert checked.returncode == 0
