"""The guides for Dify and for agents do what they say: their commands run, their snippets configure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.clients.mcp_clients import CHORDWISE, agent
from tests.support.repository import guides

SECRET = "your-key"


def blocks(guide: str, language: str) -> list[str]:
    return [block.text for block in guides.blocks(f"docs/{guide}", language)]


@pytest.fixture
def environment(client) -> dict[str, str]:
    """As in the shell of somebody who has a key."""
    key = client.headers["authorization"].removeprefix("Bearer ")
    path = f"{Path(CHORDWISE).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "CHORDWISE_API_KEY": key}


def run(command: list[str], environment: dict[str, str], folder: Path) -> str:
    ended = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=90)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


class DescribeTheDifyGuide:
    def it_retrieves_what_it_ingested(self, environment, tmp_path):
        [commands] = blocks("dify.md", "sh")
        shown = run(["bash", "-euo", "pipefail", "-c", commands], environment, tmp_path)
        [record] = json.loads(shown.splitlines()[-1])["records"]
        assert "five seconds" in record["content"]


class DescribeTheGuideForAgents:
    def it_searches_by_hand_and_by_program(self, environment, tmp_path):
        [commands] = blocks("mcp.md", "sh")
        shown = run(["bash", "-euo", "pipefail", "-c", commands], environment, tmp_path)
        [result] = json.loads(shown.splitlines()[-1])["result"]["structuredContent"]["results"]
        assert "five seconds" in result["text"]
        [program] = blocks("mcp.md", "python")
        assert result["title"] in run([sys.executable, "-c", program], environment, tmp_path)

    @pytest.mark.thorough
    async def it_configures_agents(self, environment):
        snippets = [json.loads(block) for block in blocks("mcp.md", "json")]
        servers = [server for snippet in snippets for server in next(iter(snippet.values())).values()]
        key = environment["CHORDWISE_API_KEY"]
        for server in servers:
            if "command" in server:
                assert [server["command"], *server["args"]] == ["chordwise", "mcp"]
                assert server["env"] == {"CHORDWISE_URL": "https://your-gateway", "CHORDWISE_API_KEY": SECRET}
            else:
                assert server["url"] == "https://your-gateway/mcp"
                assert server["headers"] == {"Authorization": f"Bearer {SECRET}"}
            async with agent(key, "stdio" if "command" in server else "http") as client:
                assert (await client.list_tools()).tools
