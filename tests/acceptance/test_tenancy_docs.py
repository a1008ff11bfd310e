"""The commands of docs/tenants-and-keys.md do what the page says, in the order in which they stand there."""

from __future__ import annotations

import os
import re
import shlex
import uuid

import pytest

from chordwise import Chordwise
from chordwise.cli import run
from tests.conftest import make_tenant
from tests.support.project import ROOT

PAGE = (ROOT / "docs/tenants-and-keys.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"<!-- run as (\w+) -->\n```sh\n(.*?)```", PAGE, re.DOTALL))


class DescribeThePage:
    @pytest.mark.parametrize("who", ["operator", "tenant"])
    def it_shows_commands_that_work(self, who, use, monkeypatch, tmp_path, capsys):
        key = os.environ["CHORDWISE_ADMIN_KEY"] if who == "operator" else make_tenant(use)[1]
        monkeypatch.setenv("CHORDWISE_API_KEY", key)
        monkeypatch.chdir(tmp_path)
        name = f"acme-{uuid.uuid4().hex[:8]}"
        for line in BLOCKS[who].splitlines():
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
