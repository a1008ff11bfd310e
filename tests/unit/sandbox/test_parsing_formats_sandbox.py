"""The parser process: what it bounds, what it survives, what it costs nobody else."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.errors import ParserUnavailable, PipelineError
from pipeline.parsing.formats import CSV, HTML, PLAIN
from pipeline.records import Section
from pipeline.sandbox.parser import Parser
from tests.support.corpora.hostile import HOSTILE, Hostile

# Seconds each: the first is refused as the smaller zip-bomb.docx is, the other as a parser of others that loops.
LARGE = ("200-mb-of-text.docx", "50-mb-of-tags.html")
_GOOD = b"name,note\nbolt,long\n"
_GOOD_TEXT = "name: bolt\nnote: long"


@pytest.fixture(scope="module")
def parser() -> Iterator[Parser]:
    made = Parser(memory_bytes=2**30, timeout_s=4)
    yield made
    made.close()


@pytest.fixture(scope="module")
def hurried() -> Iterator[Parser]:
    """For what has to run out of time."""
    made = Parser(memory_bytes=2**30, timeout_s=2)
    yield made
    made.close()


def _pid(parser: Parser) -> int:
    return parser._idle[0]._child.process.pid


class DescribeHostileDocuments:
    @pytest.mark.parametrize(
        "hostile",
        [
            pytest.param(each, id=each.name, marks=[pytest.mark.thorough] if each.name in LARGE else [])
            for each in HOSTILE
        ],
    )
    def it_parks_each_with_its_code_and_parses_the_next(self, hostile: Hostile, parser: Parser, hurried: Parser):
        parser = hurried if hostile.code == "parser_timeout" else parser
        try:
            found = parser.parse(hostile.make(), media_type=hostile.media_type, filename=hostile.name)
        except PipelineError as error:
            code: str | None = error.code
        else:
            code = None
            assert found.text
        assert code == hostile.code
        assert parser.parse(_GOOD, media_type=CSV).text == _GOOD_TEXT

    def it_has_twenty_of_them(self):
        assert len(HOSTILE) >= 20
        assert len({each.name for each in HOSTILE}) == len(HOSTILE)


class DescribeTheParserProcess:
    def it_gives_what_parsing_here_gives(self, parser: Parser):
        parsed = parser.parse("<title>T</title><h1>Füchse</h1><p>rot".encode(), media_type=HTML, filename="a.html")
        assert (parsed.text, parsed.title) == ("Füchse\n\nrot", "T")
        assert parsed.sections == (Section(start=0, end=11, heading_path=("Füchse",), page=None),)

    def it_serves_many_documents_with_one_process(self, parser: Parser):
        parser.parse(_GOOD, media_type=CSV)
        before = _pid(parser)
        for _ in range(20):
            parser.parse(_GOOD, media_type=CSV)
        assert _pid(parser) == before

    def it_starts_none_for_small_plain_text(self):
        parser = Parser(memory_bytes=2**30, timeout_s=4)
        assert parser.parse(b"text", media_type=PLAIN).text == "text"
        assert not parser._idle

    def it_lets_a_document_try_again_whose_process_was_killed_by_somebody(self, parser: Parser):
        parser.parse(_GOOD, media_type=CSV)
        os.kill(_pid(parser), signal.SIGKILL)
        with pytest.raises(ParserUnavailable):
            parser.parse(_GOOD, media_type=CSV)
        assert parser.parse(_GOOD, media_type=CSV).text == _GOOD_TEXT

    def it_gives_the_process_none_of_our_environment(self, parser: Parser, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("CHORDWISE_ADMIN_KEY", "secret")
        parser.close()
        parser.parse(_GOOD, media_type=CSV)
        assert b"CHORDWISE" not in Path(f"/proc/{_pid(parser)}/environ").read_bytes()

    def it_starts_its_own_in_a_forked_process(self, parser: Parser):
        parser.parse(_GOOD, media_type=CSV)
        process = parser._idle[0]
        process._child.owner += 1  # as a fork would see it
        assert parser.parse(_GOOD, media_type=CSV).text == _GOOD_TEXT
        assert parser._idle[0] is not process
        process._child.owner = os.getpid()
        process._child.process.kill()
        process._child.process.wait()

    def it_leaves_no_process_behind(self):
        parser = Parser(memory_bytes=2**30, timeout_s=4)
        parser.parse(_GOOD, media_type=CSV)
        pid = _pid(parser)
        parser.close()
        time.sleep(0.05)
        assert not Path(f"/proc/{pid}").exists()
