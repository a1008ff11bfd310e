"""Both distributions: versions, contents, and what the pages tell people to install."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import chordwise
from compose.localstack.locks import pins
from tests.support.repository.guides import pages
from tests.support.repository.project import CLIENT_PROJECT, LOCKS, PROJECT, ROOT, requirement_name

CLIENT = ROOT / "chordwise"
FOLDERS = {"dist/": "made by `make dist`", "./chordwise": "the client in a checkout"}
# Options of pip that take no value of their own.
_COMMAND = re.compile(r"pip install ((?:(?:-[\w-]+|'[^']+'|\"[^\"]+\"|[\w./=\[\]<>,-]+) ?)+)")


def named() -> list[tuple[str, str]]:
    """Each thing that a page tells its reader to install with pip."""
    found = []
    for page in pages():
        if page.startswith("docs/decisions/"):  # they may discuss what cannot be installed
            continue
        for words in _COMMAND.findall((ROOT / page).read_text(encoding="utf-8")):
            found += [(page, word.strip("'\"")) for word in words.split() if not word.startswith("-")]
    return found


def locked() -> set[str]:
    return {requirement_name(name) for lock in LOCKS for name in pins((ROOT / lock).read_text(encoding="utf-8"))}


class DescribeVersions:
    def it_releases_client_and_server_together(self) -> None:
        assert PROJECT["project"]["version"] == chordwise.__version__
        own = f"{CLIENT_PROJECT['project']['name']}=={chordwise.__version__}"
        assert own in PROJECT["project"]["dependencies"]

    def it_offers_the_clients_extras_under_their_names(self) -> None:
        theirs, ours = (each["project"]["optional-dependencies"] for each in (CLIENT_PROJECT, PROJECT))
        for extra in ("langchain", "langgraph", "llamaindex"):
            assert extra in theirs
            assert ours[extra] == [f"chordwise-client[{extra}]=={chordwise.__version__}"]


class DescribeTheClient:
    def it_holds_every_package_of_its_folder(self) -> None:
        there = {
            ".".join(path.parent.relative_to(ROOT).parts)
            for path in CLIENT.rglob("__init__.py")
            if "build" not in path.parts
        }
        assert set(CLIENT_PROJECT["tool"]["setuptools"]["packages"]) == there

    def it_requires_what_it_imports(self) -> None:
        required = {requirement_name(each) for each in CLIENT_PROJECT["project"]["dependencies"]}
        extras = CLIENT_PROJECT["project"]["optional-dependencies"].values()
        optional = {requirement_name(each) for extra in extras for each in extra}
        imported = set().union(*(imports(path) for path in CLIENT.rglob("*.py")))
        assert {name for name in imported if name not in sys.stdlib_module_names} - {"chordwise"} == {
            *required,
            *(name.replace("-", "_") for name in optional - {"llama-index-core", "langgraph"}),
            "llama_index",  # of llama-index-core; a LangGraph node is a function of a dict, so langgraph is not imported
            "mcp_types",  # of mcp
            "pydantic",  # of langchain-core and llama-index-core, whose adapters alone import it
        }

    def it_is_no_package_of_the_server(self) -> None:
        included = PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
        assert not any(pattern.startswith("chordwise") for pattern in included)


class DescribeWhatPagesInstall:
    @pytest.mark.parametrize(("page", "word"), sorted(set(named())))
    def it_can_be_installed(self, page: str, word: str) -> None:
        path, _, extras = word.rstrip("]").partition("[")
        if path.startswith(tuple(FOLDERS)):
            project = CLIENT_PROJECT if "chordwise_client" in path or path == "./chordwise" else PROJECT
            wheel = f"dist/{project['project']['name'].replace('-', '_')}-{chordwise.__version__}-py3-none-any.whl"
            assert path in (wheel, "./chordwise"), f"{page}: make dist does not write {path}"
            assert set(filter(None, extras.split(","))) <= set(project["project"]["optional-dependencies"])
            return
        requirement = Requirement(word)
        assert requirement_name(requirement.name) not in ("chordwise", "chordwise-client"), f"{page}: no index has it"
        assert requirement_name(requirement.name) in locked() | optional(), f"{page}: {word} is none of ours"
        if requirement.specifier:
            assert word in {line for extra in PROJECT["project"]["optional-dependencies"].values() for line in extra}

    def it_finds_some(self) -> None:
        assert {word for page, word in named() if page == "docs/frameworks.md"} >= {"./chordwise[langchain]"}


def optional() -> set[str]:
    extras = PROJECT["project"]["optional-dependencies"].values()
    return {requirement_name(line) for extra in extras for line in extra}


def imports(path: Path) -> set[str]:
    """The first names of everything that a module imports absolutely."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found
