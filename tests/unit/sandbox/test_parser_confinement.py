"""The parser process from inside a malicious plug-in: no network, no secrets, no files of the stack's owner."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.sandbox.confinement import FILES, PARSER_UID, SYSTEM_CALLS, USER
from pipeline.sandbox.process import ParserProcess
from tests.support.repository.project import ROOT

_SECRET = "cw-secret-of-the-owner"
_PLUGIN = """
import json, os, socket
from pipeline.parsing.formats import Format
from pipeline.records import Parsed


def tried(action):
    try:
        return str(action())
    except BaseException as error:
        return type(error).__name__


def write(path, mode):
    with open(path, mode) as file:
        file.write("x")


def parse(body, charset):
    it = json.loads(body)
    attempts = {
        "connect": lambda: socket.create_connection(("127.0.0.1", it["port"]), timeout=2).send(b"x"),
        "listen": lambda: socket.create_server(("127.0.0.1", 0)),
        "udp": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        "unix": lambda: socket.socket(socket.AF_UNIX),
        "environment": lambda: sorted(os.environ),
        "parent_environment": lambda: open(f"/proc/{os.getppid()}/environ", "rb").read(),
        "read": lambda: open(it["file"]).read(),
        "append": lambda: write(it["file"], "a"),
        "truncate": lambda: os.truncate(it["file"], 0),
        "delete": lambda: os.unlink(it["file"]),
        "list": lambda: os.listdir(it["folder"]),
        "signal": lambda: os.kill(os.getppid(), 0),
        "user": lambda: os.getuid(),
        "become_root": lambda: os.setuid(0),
    }
    found = {name: tried(action) for name, action in attempts.items()}
    return Parsed(text=json.dumps(found), sections=())


PROBE = Format(media_type="text/x-probe", suffixes=(".probe",), parse=parse)
"""
_PARSE_ON = """
import subprocess, sys
from pipeline.sandbox.process import ParserProcess

process = ParserProcess(memory_bytes=2**30, parsing_s=5, cutting_s=5)
process.wait_until_ready()
question = {"media_type": "text/plain", "filename": None}
process.ask(question, b"first", timeout_s=20)
subprocess.run(["mount", "-o", "remount", "proc", "/proc"], check=True)
header, answer = process.ask(question, "螺栓 M8".encode(), timeout_s=20)
process.end()
print(answer.decode())
"""


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file as the stack's owner keeps it."""
    file = tmp_path / "secrets.json"
    file.write_text(_SECRET)
    file.chmod(0o600)
    return file


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ParserProcess]:
    """The parser process of an owner whose environment holds secrets, with the plug-in installed."""
    folder = tmp_path / "installed"
    about = folder / "probes-1.0.dist-info"
    about.mkdir(parents=True)
    (folder / "probes.py").write_text(_PLUGIN)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: probes\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[chordwise.parsers]\nprobe = probes:PROBE\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("CHORDWISE_ADMIN_KEY", _SECRET)
    monkeypatch.setenv("OPENAI_API_KEY", _SECRET)
    made = ParserProcess(memory_bytes=2**30, parsing_s=10.0, cutting_s=10.0)
    made.wait_until_ready()
    yield made
    made.end()


@pytest.fixture
def found(process: ParserProcess, secret: Path) -> dict[str, Any]:
    """Return the result of each attempt of the plug-in."""
    listener = socket.socket()
    try:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        asked = {"port": listener.getsockname()[1], "file": str(secret), "folder": str(secret.parent)}
        header, text = process.ask(
            {"media_type": "text/x-probe", "filename": None}, json.dumps(asked).encode(), timeout_s=20
        )
        assert "bug" not in header
    finally:
        listener.close()
    answer: dict[str, Any] = json.loads(json.loads(text)["text"])
    return answer


class DescribeAPluginInTheParserProcess:
    def it_reaches_no_network(self, found, process):
        refused = ("PermissionError", "OSError", "ConnectionRefusedError", "TimeoutError")
        assert {name: found[name] in refused for name in ("connect", "listen")} == {"connect": True, "listen": True}
        if SYSTEM_CALLS not in process.unconfined:
            assert {found[name] for name in ("connect", "udp", "unix")} == {"PermissionError"}

    def it_finds_no_secret_in_an_environment(self, found, process):
        assert "CHORDWISE" not in found["environment"]
        assert "OPENAI" not in found["environment"]
        if not {FILES, USER} & set(process.unconfined):
            assert found["parent_environment"] == "PermissionError"

    def it_neither_reads_nor_changes_a_file_of_the_owner(self, found, process, secret):
        assert secret.exists()
        if FILES not in process.unconfined:
            refused = {name: found[name] for name in ("read", "append", "truncate", "delete", "list")}
            assert refused == dict.fromkeys(refused, "PermissionError")
            assert secret.read_text() == _SECRET
            assert stat.S_IMODE(secret.stat().st_mode) == 0o600

    def it_is_another_user_and_signals_nobody(self, found, process):
        if os.geteuid() == 0 and USER not in process.unconfined:
            assert found["user"] == str(PARSER_UID)
            assert found["become_root"] == "PermissionError"
        if SYSTEM_CALLS not in process.unconfined:
            assert found["signal"] == "PermissionError"


class DescribeConfinement:
    def it_says_what_this_system_does_not_allow(self):
        script = "from pipeline.sandbox.confinement import confine; print(*confine())"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert set(done.stdout.split()) <= {"network", "user", "files", "system_calls"}

    def it_parses_on_after_the_kernel_dropped_what_it_kept_of_proc(self):
        """Memory pressure drops it, and so does mounting it anew, here in a namespace of its own."""
        alone = [
            "unshare",
            *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]),
            "--pid",
            "--fork",
            "--mount-proc",
        ]
        if subprocess.run([*alone, "true"], check=False, capture_output=True).returncode:
            pytest.skip("this system allows no namespaces")
        done = subprocess.run(
            [*alone, sys.executable, "-c", _PARSE_ON], capture_output=True, text=True, check=True, cwd=ROOT
        )
        assert json.loads(done.stdout)["text"] == "螺栓 M8"
