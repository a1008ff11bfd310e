"""docs/tutorials: a new tenant follows each page in a fresh shell, in another folder than the checkout's and with the
packages that `make up` installs, and sees what the page shows."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pipeline.resources import Resources
from tests.conftest import make_tenant
from tests.support.repository.guides import pages, whole_blocks
from tests.support.repository.reading import Reader, first_missing

TUTORIALS = (
    "tutorials/agent-with-langgraph-and-mcp.md",
    "tutorials/from-pgvectorstore.md",
    "tutorials/medical-example-library.md",
    "tutorials/novel-with-story-time.md",
    "tutorials/support-bot-with-dify.md",
)
SHORTEST = "tutorials/support-bot-with-dify.md"  # the others load a framework or fill a library
_SAVED = re.compile(r"# (\w+\.py)\n")
# A prompt for a model, which no command prints.
_NOT_PRINTED = ("Answer from the passages only",)


def whole_text(page: str) -> str:
    return "".join(block.text for block in whole_blocks(f"docs/{page}"))


@pytest.fixture
def stores() -> Iterator[None]:
    """Drop the old store's table, which a page makes in the stack's PostgreSQL, after the test."""
    yield
    with psycopg.connect(
        os.environ["CHORDWISE_POSTGRES_URL"].replace("postgresql+psycopg", "postgresql")
    ) as connection:
        connection.execute("DROP SCHEMA IF EXISTS old_store CASCADE")


@pytest.mark.usefixtures("stores")
class DescribeEveryTutorial:
    @pytest.mark.parametrize(
        "page",
        [page if page == SHORTEST else pytest.param(page, marks=pytest.mark.thorough) for page in TUTORIALS],
    )
    def it_prints_what_it_shows(self, page: str, use: Resources, tmp_path: Path) -> None:
        follow(page, Reader(tmp_path, make_tenant(use)[1], elsewhere=True))

    @pytest.mark.thorough  # pip asks the package registry
    @pytest.mark.timeout(600)
    @pytest.mark.parametrize("page", [page for page in TUTORIALS if "-m pip" in whole_text(page)])
    def it_does_so_with_what_pip_installs(self, page: str, use: Resources, tmp_path: Path) -> None:
        follow(page, Reader(tmp_path, make_tenant(use)[1], elsewhere=True, registry=True))


def follow(page: str, reader: Reader) -> None:
    """Save the programs of a page, type its commands into one shell, and compare what each prints with what is shown."""
    typed: list[str] = []
    shown: list[list[str]] = []
    for block in whole_blocks(f"docs/{page}"):
        if block.language == "sh":
            typed.append(block.text)
            shown.append([])
        elif block.language == "python":
            name = _SAVED.match(block.text)
            assert name, f"{page}: a program without a name"
            (reader.cwd / name[1]).write_text(block.text, encoding="utf-8")
        elif block.language == "text" and not block.text.startswith(_NOT_PRINTED):
            shown[-1] += block.lines
    for printed, lines in zip(reader.types_in_turn(typed), shown, strict=True):
        missing = first_missing(lines, printed)
        assert missing is None, f"{page}: {missing!r} is not at its place in:\n{printed}"


def it_follows_every_tutorial() -> None:
    there = {page.removeprefix("docs/") for page in pages() if page.startswith("docs/tutorials/")}
    assert there - {"tutorials/index.md"} == set(TUTORIALS)
