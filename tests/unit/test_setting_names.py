"""Variables of the environment that are no settings: refused in one sentence with the nearest name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.setting_names import OF_OTHERS, flaw_of_names
from pipeline.settings import NAMES

ROOT = Path(__file__).parents[2]


def flaw(name: str, value: str = "1") -> str:
    return flaw_of_names([("PATH", "/bin"), (name, value)], NAMES)


class DescribeAMisspeltSetting:
    @pytest.mark.parametrize(
        ("given", "meant"),
        [
            ("CHORDWISE_RECALL_TIMEOUT", "CHORDWISE_RECALL_TIMEOUT_MS"),
            ("CHORDWISE_RECAL_TIMEOUT_MS", "CHORDWISE_RECALL_TIMEOUT_MS"),
            ("CHORDWISE_QUOTA_TOKEN", "CHORDWISE_QUOTA_TOKENS"),
            ("CHORDWISE_MYSQL_URI", "CHORDWISE_MYSQL_URL"),
            ("chordwise_store_pool", "CHORDWISE_STORE_POOL_SIZE"),
        ],
    )
    def it_is_named_with_the_nearest(self, given, meant):
        assert flaw(given) == f"{given} is not a setting; did you mean {meant}?"

    def it_is_named_without_one_where_none_is_near(self):
        assert flaw("CHORDWISE_FOO").startswith("CHORDWISE_FOO is not a setting of this release")

    @pytest.mark.parametrize(
        "name",
        [
            *sorted(OF_OTHERS | {"CHORDWISE_RECALL_TIMEOUT_MS", "chordwise_recall_timeout_ms"}),
            *("CHORDWISE_TEST_MYSQL_ROOT", "CHORDWISE_LOCAL_POSTGRES", "CHORDWISE_GATEWAY_SERVICE_HOST"),
            *("CHORDWISE_GATEWAY_PORT_8080_TCP_ADDR", "PATH"),
        ],
    )
    def it_is_none_of_another_program(self, name):
        assert flaw(name) == ""

    def it_may_be_empty(self):
        assert flaw("CHORDWISE_FOO", "") == ""

    @pytest.mark.parametrize(
        "command",
        [
            ["gateway"],
            *(pytest.param(words, marks=pytest.mark.thorough) for words in (["indexer"], ["key", "ops"])),
            pytest.param(["worker", "--role", "queries"], marks=pytest.mark.thorough),
        ],
    )
    def it_stops_every_process_with_one_sentence(self, command):
        environment = {**os.environ, "CHORDWISE_RECALL_TIMEOUT": "300"}
        ended = subprocess.run(
            [sys.executable, "-m", "workers.server", *command],
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert ended.returncode != 0
        assert (
            ended.stderr.strip()
            .splitlines()[-1]
            .endswith("CHORDWISE_RECALL_TIMEOUT is not a setting; did you mean CHORDWISE_RECALL_TIMEOUT_MS?")
        ), ended.stderr
        assert "Traceback" not in ended.stderr
