"""README and docs/ as their readers follow them: blocks of code, commands set in a line, and what no test can run."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from tests.support.repository.project import ROOT

README = "README.md"
READMES = (README, "README.zh-CN.md")
# Chinese pages beside the English ones whose commands they show.
_TRANSLATED = (
    "backup",
    "getting-started",
    "install",
    "python",
    "troubleshooting",
    "tutorials/agent-with-langgraph-and-mcp",
    "tutorials/from-pgvectorstore",
    "tutorials/medical-example-library",
    "tutorials/novel-with-story-time",
    "tutorials/support-bot-with-dify",
)
TRANSLATIONS = {"README.zh-CN.md": README} | {f"docs/zh/{page}.md": f"docs/{page}.md" for page in _TRANSLATED}
PICTURES = frozenset({"text", "mermaid", "diff"})  # drawings, what a program prints, and changes to a program

# Lines of blocks that are left out when their block is run, by how they begin: each with the reason.
NOT_RUN = {
    "celery -A workers.app ": "it does not end; tests/unit/test_documented_commands.py parses it and counts the queues",
    **dict.fromkeys(
        ("chordwise-server worker ", "chordwise-server clock ", "chordwise-server indexer"),
        "it does not end; every stack runs it, and tests/unit/test_documented_commands.py parses it",
    ),
    "chordwise-server backup ": "tests/integration/maintenance/test_backup_drill.py makes one",
    "cp .env.example .env": "tests/test_compose.py reads that very file",
    "cd ~/chordwise; set -a": "names the stack of `make up`; tests/integration/workers/test_flower.py sends the command",
    "docker compose ": "no daemon of containers on a bare machine; tests/test_compose.py reads the file",
    'eval "$(chordwise completion zsh)"': "no zsh on a bare machine; tests/unit/client/cli/test_every_command.py asks for it",
    "mariadb-binlog ": "needs the log of a server; tests/integration/maintenance/test_backup_drill.py replays one",
    "mariadb chordwise < ": "writes into the stack under the tests; tests/integration/maintenance/test_backup_drill.py",
    "mariadb-dump ": "not part of the servers that the stack unpacks; tried by hand, as docs/backup.md says",
    "pg_dump ": "makes half a backup without the other; tried by hand, as docs/backup.md says",
    "helm upgrade ": "needs a cluster; tests/test_chart.py renders the chart",
    "kubectl ": "needs a cluster; tests/test_chart.py renders the chart",
    "npm install ": "npm is not on a bare machine; tests/acceptance/client/test_javascript_package.py unpacks the archive",
    "pip install ": "needs a package registry; tests/unit/test_distributions.py looks up what it names",
    **dict.fromkeys(
        (
            "useradd ",
            "python3 -m venv /opt/",
            "/opt/chordwise-0.2.0/bin/pip install ",
            "ln -sfn /opt/",
            "cp -r compose/systemd/",
            "install -",
            "systemctl ",
            "systemd-run ",
        ),
        "changes the machine and needs systemd as the first process; tests/test_systemd.py has systemd read the units",
    ),
}


class Block(NamedTuple):
    """A fenced block. ``heading`` is the one it stands below, ``who`` what ``<!-- run as … -->`` above it says."""

    page: str
    heading: str
    language: str
    text: str
    who: str = ""

    @property
    def lines(self) -> list[str]:
        """Its commands: neither blank nor a remark."""
        return [line for line in self.text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


@cache
def pages() -> tuple[str, ...]:
    """Every page, as a path from the root of the project."""
    found = sorted((ROOT / "docs").rglob("*.md"))
    return (*READMES, *(str(path.relative_to(ROOT)) for path in found))


@cache
def whole_blocks(page: str) -> tuple[Block, ...]:
    """Every fenced block of a page, as it stands there."""
    found, heading, who = [], "", ""
    opened: tuple[str, str] | None = None
    inside: list[str] = []
    for line in _text(page).splitlines():
        fence = re.fullmatch(r" *(`{3,}|~{3,})(\w*) *", line)
        if opened is None and fence:
            opened, inside = (fence[1], fence[2]), []
        elif opened and fence and fence[1] == opened[0] and not fence[2]:
            found.append(Block(page, heading, opened[1], "".join(f"{each}\n" for each in inside), who))
            opened, who = None, ""
        elif opened:
            inside.append(line)
        else:
            heading = line.lstrip("# ") if line.startswith("#") else heading
            mark = re.fullmatch(r"<!-- run as (\w+) -->", line)
            who = mark[1] if mark else "" if line.strip() else who
    assert opened is None, f"{page} ends within a block"
    return tuple(found)


def blocks(page: str, language: str) -> list[Block]:
    """The blocks of a page in one language, to be run from top to bottom: all of them, less the lines of `NOT_RUN`."""
    found = []
    for block in whole_blocks(page):
        kept = [line for line in block.text.splitlines() if not line.startswith(tuple(NOT_RUN))]
        block = block._replace(text="".join(f"{line}\n" for line in kept))
        if block.language == language and block.lines:
            found.append(block)
    assert found, f"{page} has nothing in {language}"
    return found


@cache
def set_in_lines(page: str) -> tuple[str, ...]:
    """Return a page's inline code, in sentences and tables, with white space as single spaces."""
    prose = re.sub(r"^ *(`{3,}|~{3,}).*?^ *\1 *$", "", _text(page), flags=re.MULTILINE | re.DOTALL)
    return tuple(" ".join(code.replace("\\|", "|").split()) for code in re.findall(r"`([^`]+)`", prose))


def _text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")
