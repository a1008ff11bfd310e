"""The commands of docs/tenants-and-keys.md do what the page says, in the order in which they stand there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import uuid

import pytest

from chordwise import Chordwise
from chordwise.cli import run
from tests.conftest import make_tenant
from tests.support.repository.guides import blocks
from tests.support.repository.project import ROOT

PAGE = (ROOT / "docs/tenants-and-keys.md").read_text(encoding="utf-8")
BLOCKS = {block.who: block for block in blocks("docs/tenants-and-keys.md", "sh")}


class DescribeThePage:
    def it_says_of_every_command_who_types_it(self):
        assert sorted(block.who for block in blocks("docs/tenants-and-keys.md", "sh")) == ["host", "operator", "tenant"]

    def it_makes_an_operators_key(self, monkeypatch, capsys):
        name = f"ops-{uuid.uuid4().hex[:8]}"
        [command] = BLOCKS["host"].lines
        done = subprocess.run(
            [sys.executable, *shlex.split(command.replace(" ops ", f" {name} "))[1:]],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        monkeypatch.setenv("CHORDWISE_API_KEY", done.stdout.strip())
        assert run(["tenants", "show", name]) == 0
        assert name in capsys.readouterr().out
        assert run(["tenants", "erase", name, "--yes"]) == 0

    @pytest.mark.parametrize("who", ["operator", "tenant"])
    def it_shows_commands_that_work(self, who, use, monkeypatch, tmp_path, capsys):
        key = os.environ["CHORDWISE_ADMIN_KEY"] if who == "operator" else make_tenant(use)[1]
        monkeypatch.setenv("CHORDWISE_API_KEY", key)
        monkeypatch.chdir(tmp_path)
        name = f"acme-{uuid.uuid4().hex[:8]}"
        for line in BLOCKS[who].lines:
            program, *arguments = shlex.split(line)
            assert program == "chordwise"
            code = run([name if each == "acme" else each for each in arguments])
            assert code == 0, (line, capsys.readouterr().err)

    def it_shows_how_a_key_is_rotated(self, use, monkeypatch, capsys):
        key = make_tenant(use)[1]
        monkeypatch.setenv("CHORDWISE_API_KEY", key)
        [command] = re.findall(r"`chordwise (keys rotate [^`]*)`", PAGE)
        with Chordwise(os.environ["CHORDWISE_URL"], key) as client:
            made = client.create_key("a key")
        assert run(shlex.split(command.replace("ID", made.key_id))) == 0
        assert "cw_" in capsys.readouterr().out
