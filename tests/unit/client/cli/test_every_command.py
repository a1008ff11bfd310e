"""Every command there is, found by walking over them: help, --json, exit statuses, completion."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

import pytest

from chordwise.api.files import find_files
from chordwise.cli import run
from chordwise.cli.completion_command import Shell
from pipeline.parsing.formats import SUFFIXES
from tests.support.repository.cli_uses import commands
from tests.support.repository.project import ROOT

PROMISED = {"ingest", "import-examples", "query", "jobs", "verify", "eval", "doctor", "completion"}


COMMANDS = commands()


@pytest.fixture(autouse=True)
def _unreachable_server(monkeypatch, tmp_path):
    """A server that does not answer, and a folder without anything in it."""
    monkeypatch.setenv("CHORDWISE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("CHORDWISE_API_KEY", "none")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
class DescribeEveryCommand:
    def it_has_help_with_its_purpose(self, path, capsys):
        assert run([*path, "--help"]) == 0
        help_text = capsys.readouterr().out
        assert f"Usage: chordwise {' '.join(path)} [OPTIONS]" in help_text
        assert (COMMANDS[path].help or "").strip().splitlines()[0] in " ".join(help_text.split())

    def it_takes_json(self, path):
        if path == ("mcp",):  # it speaks JSON from beginning to end
            return
        assert "--json" in {name for option in COMMANDS[path].params for name in option.opts}

    def it_explains_every_option_and_argument(self, path):
        assert [
            each.name for each in COMMANDS[path].params if each.name != "help" and not getattr(each, "help", "")
        ] == []

    def it_reports_an_unknown_option_in_one_sentence(self, path, capsys):
        assert run([*path, "--no-such-option"]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("chordwise: ")
        assert captured.err.count("\n") == 1

    def it_fails_in_one_sentence_when_the_server_is_away(self, path, capsys, monkeypatch):
        if path == ("mcp",):  # agents are answered in their own protocol: test_mcp_stdio
            return
        monkeypatch.setattr(time, "sleep", lambda _seconds: None)  # between attempts
        required = [each for each in COMMANDS[path].params if each.required]
        if required or path == ("completion",):
            assert run([*path]) == 2  # it says what is missing, and asks nobody
        else:
            assert run([*path]) in (1, 2)
        captured = capsys.readouterr()
        assert captured.err.startswith("chordwise: ")
        assert captured.err.count("\n") == 1
        assert "Traceback" not in captured.err


GROUPS = sorted({path[:length] for path in COMMANDS for length in range(len(path))})


@pytest.mark.parametrize("path", [*GROUPS, *COMMANDS], ids=lambda path: " ".join(path) or "chordwise")
def test_help_is_not_cut_at_80_columns(path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run([*path, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert [line for line in lines if line.rstrip().endswith("...") and not line.startswith("Usage: ")] == []


def test_ingest_names_every_kind_of_file_that_it_takes_from_a_folder(tmp_path, capsys) -> None:
    for suffix in SUFFIXES:
        (tmp_path / f"a{suffix}").touch()
    taken = {file.path.suffix[1:] for file in find_files([tmp_path]).files}
    assert run(["ingest", "--help"]) == 0
    named = set(re.findall(r"\b[a-z]+\d?\b", capsys.readouterr().out))
    assert taken - {"text", "markdown", "htm", "ndjson"} - named == set()  # other names of kinds that are named


def test_every_promised_command_is_there() -> None:
    assert {path[0] for path in COMMANDS} >= PROMISED


def run_process(*command: str, **environment: str) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        env={**os.environ, "PATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout


class DescribeCompletion:
    @pytest.mark.parametrize("shell", get_args(Shell))
    def it_prints_a_script_whose_first_line_tells_where_to_put_it(self, shell, capsys):
        assert run(["completion", shell]) == 0
        first, *script = capsys.readouterr().out.splitlines()
        assert first.startswith("# ")
        assert f"chordwise completion {shell}" in first
        assert "_CHORDWISE_COMPLETE" in "\n".join(script)

    @pytest.mark.parametrize(("typed", "completed"), [("jo", "jobs"), ("verify --re", "--repair")])
    def it_completes_in_bash(self, typed, completed, capsys):
        assert run(["completion", "bash"]) == 0
        words = typed.split()
        script = (
            f"{capsys.readouterr().out}COMP_WORDS=(chordwise {typed}); COMP_CWORD={len(words)};"
            '_chordwise_completion chordwise; echo "${COMPREPLY[@]}"'
        )
        assert run_process("bash", "-c", script).split() == [completed]

    @pytest.mark.parametrize(("shell", "more"), [("zsh", {}), ("fish", {"_TYPER_COMPLETE_FISH_ACTION": "get-args"})])
    def it_completes_in_zsh_and_fish(self, shell, more):
        environment = {"_CHORDWISE_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": "chordwise ver", **more}
        answer = run_process("chordwise", **environment)
        assert "verify" in answer
        assert "jobs" not in answer

    def it_is_a_script_that_bash_can_read(self, tmp_path, capsys):
        assert run(["completion", "bash"]) == 0
        (tmp_path / "script").write_text(capsys.readouterr().out)
        assert subprocess.run(["bash", "-n", str(tmp_path / "script")], check=False).returncode == 0

    def it_refuses_another_shell(self, capsys):
        assert run(["completion", "tcsh"]) == 2
        assert "bash" in capsys.readouterr().err

    def it_needs_no_server(self, monkeypatch, capsys):
        monkeypatch.delenv("CHORDWISE_URL")
        assert run(["completion", "bash", "--json"]) == 0
        assert "script" in capsys.readouterr().out


def test_the_document_names_every_command() -> None:
    text = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    assert [path for path in COMMANDS if f"chordwise {' '.join(path)}" not in text] == []


class DescribeStarting:
    """A query should not pay for the modules of other commands."""

    def it_loads_the_module_of_one_command_only(self):
        program = (
            "import sys; from chordwise.cli import run; run(['query', 'x', '-n', 'kb', '--json']);"
            "print(*sorted(name for name in sys.modules if name.endswith('_command')))"
        )
        loaded = run_process(sys.executable, "-c", program).split()
        assert loaded == ["chordwise.cli.query_command"]

    def it_exports_every_name_lazily(self):
        program = (
            "import chordwise, sys; before = 'httpx' in sys.modules; [getattr(chordwise, name) for name in chordwise.__all__];"
            "print(before, sorted(set(chordwise.__all__) ^ {*chordwise._MODULE_OF, '__version__'}))"
        )
        assert run_process(sys.executable, "-c", program).strip() == "False []"
