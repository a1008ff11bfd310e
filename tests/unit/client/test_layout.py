"""The layout of `chordwise`: file names are unique and are no gerunds, folders and files stay small."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tests.support.repository.project import ROOT

CLIENT = ROOT / "chordwise"
# Without `build`, which pip leaves behind where a reader of the tutorials has installed the client.
FILES = [
    path
    for path in sorted(CLIENT.rglob("*.py"))
    if path.name != "__init__.py" and not path.is_relative_to(CLIENT / "build")
]
# Documented import paths; `prompting` is the name users know.
DOCUMENTED = {
    "agent_response",
    "example_step",
    "langchain",
    "langgraph",
    "llamaindex",
    "prompting",
    "recall_agent",
    "tools",
}
_MOST_FILES, _MOST_LINES = 25, 400


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


class DescribeNames:
    def it_uses_every_file_name_once(self):
        counts = Counter(path.stem for path in FILES)
        assert [stem for stem, count in counts.items() if count > 1] == []

    def it_names_no_file_by_a_gerund(self):
        stems = {path.stem for path in FILES} - DOCUMENTED
        assert [stem for stem in stems if re.search(r"ing(_|$)", stem)] == []


class DescribeSizes:
    def it_holds_no_more_files_than_fit_on_a_screen(self):
        counts = Counter(path.parent for path in FILES)
        assert {folder: count for folder, count in counts.items() if count > _MOST_FILES} == {}

    def it_keeps_files_short(self):
        assert {path: lines(path) for path in FILES if lines(path) > _MOST_LINES} == {}

    def it_has_a_module_under_every_documented_name(self):
        assert {path.stem for path in FILES if path.parent == CLIENT} >= DOCUMENTED
