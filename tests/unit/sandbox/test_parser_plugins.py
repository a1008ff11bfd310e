"""Parsers of others: an installed package brings one, and it is run where ours are."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.errors import MalformedDocument, ParserMemory, ParserTimeout, ParserUnavailable, UnsupportedMediaType
from pipeline.parsing.formats import CSV, PARSERS, SUFFIXES, Format, media_type_of, register
from pipeline.records import Parsed, Section
from pipeline.sandbox.accepted_formats import register_installed_parsers
from pipeline.sandbox.parser import Parser

_PACKAGE = """
from pipeline.parsing.formats import Format
from pipeline.errors import MalformedDocument
from pipeline.records import Parsed, Section


def parse(body, charset):
    text = body.decode(charset or "utf-8")
    if text == "bad":
        raise MalformedDocument("a bad poem")
    if text == "loop":
        while True:
            pass
    if text == "large":
        text = "x" * 2**31
    if text == "exit":
        import os
        os._exit(3)
    return Parsed(text=text.upper(), sections=(Section(start=0, end=len(text), heading_path=("Poem",), page=7),))


POEM = Format(media_type="text/x-poem", suffixes=(".poem",), parse=parse)
THIEF = Format(media_type="application/pdf", suffixes=(".pdf",), parse=parse)
NOT_ONE = object()
"""
_ENTRY_POINTS = """[chordwise.parsers]
poem = poems:POEM
thief = poems:THIEF
not_one = poems:NOT_ONE
missing = poems:NOWHERE
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package with parsers, as an installer leaves it behind."""
    (tmp_path / "poems.py").write_text(_PACKAGE)
    about = tmp_path / "poems-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: poems\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(_ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    register_installed_parsers.cache_clear()
    parsers, suffixes = dict(PARSERS), dict(SUFFIXES)
    yield
    register_installed_parsers.cache_clear()
    for table, before in ((PARSERS, parsers), (SUFFIXES, suffixes)):
        table.clear()
        table.update(before)  # type: ignore[arg-type]
    sys.modules.pop("poems", None)


@pytest.fixture
def parser() -> Iterator[Parser]:
    made = Parser(memory_bytes=2**30, timeout_s=2)
    yield made
    made.close()


class DescribeAnInstalledParser:
    def it_is_accepted_by_its_suffix_and_by_its_media_type(self, installed):
        with pytest.raises(UnsupportedMediaType):
            media_type_of("a.poem", None)
        assert register_installed_parsers() == ("text/x-poem",)
        assert media_type_of("a.poem", "text/plain") == "text/x-poem"
        assert media_type_of(None, "text/x-poem; charset=latin-1") == "text/x-poem; charset=latin-1"
        with pytest.raises(UnsupportedMediaType, match=r"\.poem.*text/x-poem"):
            media_type_of("a.exe", None)

    def it_takes_the_place_of_none_of_ours(self, installed):
        before = PARSERS["application/pdf"]
        register_installed_parsers()
        assert PARSERS["application/pdf"] is before

    def it_runs_in_the_parser_process(self, installed, parser):
        found = parser.parse("föx".encode("latin-1"), media_type="text/x-poem;charset=latin-1", filename="a.poem")
        assert found == Parsed(
            text="FÖX", sections=(Section(start=0, end=3, heading_path=("Poem",), page=7),), title="a"
        )
        assert "poems" not in sys.modules  # nothing of it was loaded here

    @pytest.mark.parametrize(
        ("body", "error"),
        [(b"bad", MalformedDocument), (b"loop", (ParserTimeout, ParserUnavailable)), (b"large", ParserMemory)],
    )
    def it_is_held_to_the_limits_of_ours(self, installed, parser, body, error):
        with pytest.raises(error):
            parser.parse(body, media_type="text/x-poem")
        assert parser.parse(b"name,note\nbolt,long\n", media_type=CSV).text == "name: bolt\nnote: long"


class DescribeRegister:
    def it_refuses_what_is_no_format(self):
        for media_type, suffix in (("poem", ".poem"), ("text/Poem", ".poem"), ("text/x-poem", "poem")):
            with pytest.raises(ValueError):
                Format(media_type=media_type, suffixes=(suffix,), parse=PARSERS[CSV])

    @pytest.mark.parametrize(
        ("media_type", "suffix"),
        [("text/x-poem", ".csv"), ("application/jsonl", ".poem"), ("text/x-markdown", ".poem")],
    )
    def it_refuses_what_stands_for_another_format(self, media_type, suffix):
        before = dict(PARSERS), dict(SUFFIXES)
        with pytest.raises(ValueError):
            register(Format(media_type=media_type, suffixes=(suffix,), parse=lambda body, charset: None))
        assert (dict(PARSERS), dict(SUFFIXES)) == before

    def it_loads_nothing_that_logs_into_the_core(self):
        code = "import pipeline.parsing, sys; sys.exit('structlog' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
