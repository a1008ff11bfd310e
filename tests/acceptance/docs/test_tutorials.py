"""docs/tutorials: a new tenant follows each page in another folder than the checkout's, and sees what the page shows."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.conftest import make_tenant
from tests.support.repository.guides import pages, whole_blocks
from tests.support.repository.reading import Reader

TUTORIALS = (
    "tutorials/agent-with-langgraph-and-mcp.md",
    "tutorials/from-pgvectorstore.md",
    "tutorials/medical-example-library.md",
    "tutorials/novel-with-story-time.md",
    "tutorials/support-bot-with-dify.md",
)
_SAVED = re.compile(r"# (\w+\.py)\n")
# A prompt for a model, which no command prints.
_NOT_PRINTED = ("Answer from the passages only",)


@pytest.fixture
def pgvector() -> Iterator[str]:
    """The address of a database with an old store's table; the table is dropped with the test."""
    url = os.environ["CHORDWISE_POSTGRES_URL"].replace("postgresql+psycopg", "postgresql")
    yield url
    with psycopg.connect(url) as connection:
        connection.execute("DROP SCHEMA IF EXISTS old_store CASCADE")


@pytest.mark.parametrize("page", TUTORIALS)
def it_prints_what_it_shows(page: str, use, pgvector: str, tmp_path: Path) -> None:
    reader = Reader(tmp_path, make_tenant(use)[1], elsewhere=True, PGVECTOR_URL=pgvector)
    printed = ""
    for block in whole_blocks(f"docs/{page}"):
        if block.language == "sh":
            printed = reader.types(f"export PGVECTOR_URL='{pgvector}'\n{block.text}", knowing=False)
        elif block.language == "python":
            name = _SAVED.match(block.text)
            assert name, f"{page}: a program without a name"
            (tmp_path / "elsewhere" / name[1]).write_text(block.text, encoding="utf-8")
        elif block.language == "text" and not block.text.startswith(_NOT_PRINTED):
            for line in block.lines:
                shown = ".*".join(re.escape(part) for part in line.split("…"))
                assert re.search(shown, printed), f"{page}: {line!r} is not in:\n{printed}"


def it_follows_every_tutorial() -> None:
    there = {page.removeprefix("docs/") for page in pages() if page.startswith("docs/tutorials/")}
    assert there - {"tutorials/index.md"} == set(TUTORIALS)
