"""Cutting in the parser process: the same chunks as in place, and a text that exceeds a limit fails by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice, product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from pipeline.chunking.strategies.registry import STRATEGIES, register
from pipeline.chunking.strategies.strategy import Cut, Strategy
from pipeline.documents.cut_document import CutDocument, CutRequest, cut_as
from pipeline.errors import CuttingMemory, CuttingTooSlow, DocumentTooLarge, EmptyDocument, IngestCrowded, Rejected
from pipeline.parsing.formats import HTML, MARKDOWN, PLAIN, parse
from pipeline.records import Chunking, Namespace, Passage, Scope, TenantId
from pipeline.sandbox.frames import question_of, request_of
from pipeline.sandbox.parse import answer_to
from pipeline.sandbox.parser import Parser
from pipeline.sandbox.pipes import packed, read_frame
from tests.support.corpora.growth import processor_time

_SCOPE = Scope(tenant_id=TenantId("t"), namespace=Namespace("n"))
_PATIENT = 60  # times the processor's time: other tests want the processor too
_TEXT = (
    "# Chapter one\n\nstory_time: 12\nentities: Ann, 李雷\nplace: Rome\n\nThe whale sings. 蓝鲸唱歌。它很大！\n\n"
    "Q: What sings?\nA: The whale 👩\u200d🔬.\n\nquestion: Why?\nanswer: Because.\n\n## Part\n\n"
    + "One more sentence. 再来一句。"
    * 90
)


@pytest.fixture(scope="module")
def parser() -> Iterator[Parser]:
    made = Parser(memory_bytes=2**30, timeout_s=5, cutting_timeout_s=1, by_the_clock=_PATIENT)
    yield made
    made.close()


def _request(strategy: str = "sentences", *, most: int = 10_000, **chunking: int) -> CutRequest:
    cut = Chunking(strategy=strategy, max_tokens=chunking.get("max_tokens", 64), options={"parent_tokens": 128})
    return CutRequest(media_type=MARKDOWN, chunking=cut, most_chunks=most, scope=_SCOPE)


def _words(count: int) -> bytes:
    """Words that are all different: the slowest text there is for its length."""
    return " ".join(map("".join, islice(product("qzxjkvbpygfw", repeat=7), count))).encode()


def _pid(parser: Parser) -> int:
    return parser._idle[0]._child.process.pid


class DescribeCuttingThere:
    @pytest.mark.parametrize("strategy", list(STRATEGIES))
    def it_gives_what_cutting_here_gives(self, parser: Parser, strategy: str):
        body = (_TEXT * 4).encode()
        assert len(body) > 4096
        request = _request(strategy)
        there = parser.cut(body, request)
        here = cut_as(parse(body, media_type=MARKDOWN), request)
        assert list(there.passages) == list(here.passages)
        assert list(there.parents) == list(here.parents)
        assert (list(there.searched), list(there.indexed)) == (list(here.searched), list(here.indexed))
        assert there.title == here.title == "Chapter one"

    @settings(max_examples=40, deadline=None)
    @given(
        text=st.text(alphabet="ab 句。\n#:Q?🦊é", min_size=1, max_size=120),
        strategy=st.sampled_from(list(STRATEGIES)),
        title=st.none() | st.text(max_size=5),
        with_terms=st.booleans(),
    )
    def it_brings_any_document_across(self, text, strategy, title, with_terms):
        request = replace(_request(strategy, max_tokens=16), title=title, scope=_SCOPE if with_terms else None)
        parsed = parse(f"x {text}".encode(), media_type=MARKDOWN)
        cut = cut_as(parsed, request)
        _, body = _through(*answer_to(question_of(request), f"x {text}".encode()))
        assert _plain(TypeAdapter(CutDocument).validate_json(body)) == _plain(cut)
        assert request_of(_through(question_of(request))[0]) == request

    def it_refuses_what_takes_too_long_and_cuts_the_next_document(self, parser: Parser):
        with pytest.raises(CuttingTooSlow, match="took more than 1 s") as refused:
            parser.cut(_words(600_000), replace(_request(most=10**9), media_type=PLAIN))
        assert refused.value.code == "cutting_too_slow"
        assert parser.cut((_TEXT * 4).encode(), _request()).passages

    def it_names_the_setting_when_it_takes_too_much_memory(self):
        small = Parser(memory_bytes=256 * 2**20, timeout_s=5, cutting_timeout_s=20, by_the_clock=_PATIENT)
        try:
            with pytest.raises(CuttingMemory, match="CHORDWISE_PARSER_MEMORY_BYTES") as refused:
                small.cut(b"word " * 1_600_000, replace(_request(), media_type=PLAIN))
            assert refused.value.code == "cutting_memory"
        finally:
            small.close()

    @pytest.mark.thorough
    def it_stops_at_the_chunk_that_is_too_many(self, parser: Parser):
        body = "句。".encode() * 600_000
        with pytest.raises(DocumentTooLarge, match="more than 10000 chunks"):
            parser.cut(body, replace(_request("window"), media_type=PLAIN))

    def it_says_what_is_wrong_with_a_document(self, parser: Parser):
        with pytest.raises(EmptyDocument):
            parser.cut(b"<p> </p>", replace(_request(), media_type=HTML))

    def it_cuts_a_short_text_at_once(self):
        parser = Parser(memory_bytes=2**30, timeout_s=4)
        assert parser.cut(b"One line.", _request()).passages[0].text == "One line."
        assert not parser._idle

    @pytest.mark.thorough
    @pytest.mark.parametrize("strategy", list(STRATEGIES))
    @pytest.mark.parametrize(
        "unit", [".", " ", "\u00a0", "句", "# h\n\nx\n\n", "a\u0301\u0323", "<a ", "[](a", '"', "0"]
    )
    def it_takes_no_time_for_one_whatever_is_in_it(self, strategy: str, unit: str):
        parser = Parser(memory_bytes=2**30, timeout_s=4)

        def cut(text: str) -> None:
            with suppress(Rejected):
                parser.cut(text.encode(), _request(strategy))

        text = (unit * 4096).encode()[:4096].decode(errors="ignore")
        assert processor_time(cut, text, tries=3) < 0.25
        assert not parser._idle

    def it_cuts_with_a_strategy_that_only_this_process_knows(self, parser: Parser):
        def whole(parsed, chunking, allowance):
            text = parsed.text
            return Cut(passages=list(allowance.taken_by([Passage(text=text, start=0, end=len(text), token_count=1)])))

        register(Strategy(name="mine", meaning="All of it.", cut=whole))
        try:
            body = b"<p>" + b"word " * 2000
            assert len(parser.cut(body, replace(_request("mine"), media_type=HTML)).passages) == 1
        finally:
            del STRATEGIES["mine"]

    def it_leaves_no_process_behind_that_nobody_closed(self):
        parser = Parser(memory_bytes=2**30, timeout_s=4)
        parser.cut((_TEXT * 4).encode(), _request())
        pid = _pid(parser)
        del parser
        assert not Path(f"/proc/{pid}").exists()


class DescribeWaitingForIt:
    @pytest.mark.thorough
    def it_does_other_things_meanwhile(self, parser: Parser):
        called: list[object] = []
        with pytest.raises(CuttingTooSlow):
            parser.cut(
                _words(600_000),
                replace(_request(most=10**9), media_type=PLAIN),
                meanwhile=lambda: called.append(parser.cut((_TEXT * 4).encode(), _request())),
            )
        assert called

    def it_ends_the_process_of_a_document_that_is_given_up(self, parser: Parser):
        parser.cut((_TEXT * 4).encode(), _request())
        before = _pid(parser)

        def give_up() -> None:
            raise IngestCrowded("enough")

        with pytest.raises(IngestCrowded):
            parser.cut(_words(600_000), replace(_request(most=10**9), media_type=PLAIN), meanwhile=give_up)
        assert not Path(f"/proc/{before}").exists()
        assert parser.cut((_TEXT * 4).encode(), _request()).passages  # by a process that was started at once


def _through(header: dict[str, object], body: bytes = b"") -> tuple[dict[str, object], bytes]:
    data = memoryview(packed(header, body))
    place = 0

    def read(count: int) -> bytes:
        nonlocal place
        place += count
        return bytes(data[place - count : place])

    return read_frame(read)


def _plain(document: CutDocument) -> tuple[object, ...]:
    lists = (document.passages, document.searched, document.indexed, document.parents)
    return (document.title, *map(list, lists))
