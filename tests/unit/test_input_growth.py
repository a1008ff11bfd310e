"""Every reader of a caller's text takes linear time: hostile texts of two lengths through each reader."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial

import pytest

from api_gateway.http.prefer import parse_prefer
from pipeline.answer.highlights import spans
from pipeline.chunking.strategies.question_answer import pair_of
from pipeline.chunking.strategies.registry import STRATEGIES
from pipeline.chunking.tokens import count_tokens
from pipeline.documents.clean_text import joined
from pipeline.documents.cut_document import CutRequest, cut_as
from pipeline.errors import Rejected
from pipeline.examples.headings import category_of, column_of, lines, one_line, split_tags
from pipeline.examples.json_book import json_tables
from pipeline.filters.lenient_json import loads
from pipeline.keyword.normal_form import normal_form
from pipeline.keyword.terms import analyze, content_terms, query_terms
from pipeline.models.rerank_local import identifiers
from pipeline.parsing.formats import CSV, HTML, JSON, JSONL, MARKDOWN, PLAIN, parse
from pipeline.privacy.redaction import redact
from pipeline.query.keywords import entities_of, keywords_of
from pipeline.query.model_replies import json_in, read_passage, read_sub_queries
from pipeline.query.routing import route
from pipeline.ranking.selection import shingles
from pipeline.records import Chunking, Namespace, Scope, TenantId
from tests.support.corpora.growth import Slow, grows, processor_time, run_of, runs

_SCOPE = Scope(tenant_id=TenantId("t"), namespace=Namespace("n"))
_SCALES = (64, 1024, 8192)  # characters
_HARMLESS = "The blue whale eats krill, 4 tonnes of it a day. 蓝鲸每天吃四吨磷虾。\n\n"
_TIMES = 6  # as long as for harmless text: a hostile one may take that before its growth is looked at
_LEAST_S = 0.003

# Texts that documents repeat, in addition to the runs that every pattern is tried with.
_UNITS = (
    *("# h\n\nx\n\n", "# h\n\nx", "## h\n", "###### h\n\n", "text: \n", "Q: a\nA: b\n", "q: \n", "问：x\n"),
    *("a: b\n", "a: b\n\n", "story_time: 1\n", "chapter: a\nx1: y\ntext: b\n", "content: x\n\n", "- a\n"),
    *("| a ", "> ", "```\n", "1. ", "![a](", "[a]: b\n", "<p>", "<b>", "<table><tr><td>", "<h1>a", "<!--a"),
    *("<script>", "</p>", "&amp;", "<a href=", "<x y='", "---\n", "title: \n", "{\"a\":", "\"a\",", "[\""),
    *("\\u0041", "句。", "句，", "句 ", 'a\xa0', 'a\u0300\u0323', '\u0300\u0323', '\u1100'),
    *('\U0001f1e9\U0001f1ea', '\U0001f469\u200d\U0001f469\u200d', "a.b", "a-b-", "a1 ", "1,000", "a@b.c "),
    *("+86 138 ", "x\n", "x\ny\n\n", "，\n", ". A", ".a ", "e.g. ", "...\n", "?! "),
)  # fmt: skip


# The worst that were seen, for every run of the tests; all others when they are thorough.
_WORST = (
    *(" ", "\u00a0", ".", "0", "[", "<", '"', "句", "句。", "a\u0300\u0323", "\u200d", "# h\n\nx\n\n", "text: \n"),
    *("Q: a\nA: b\n", "x\ny\n\n"),
)


def examples_of_all() -> Iterator[Callable[[int], str]]:
    """Every run, and everything that documents repeat."""
    yield from runs(ends=("x",))
    for unit in _UNITS:
        yield run_of(unit, "x")


def _cut(text: str, *, strategy: str, media_type: str, max_tokens: int) -> object:
    chunking = Chunking(strategy=strategy, max_tokens=max_tokens, options={"parent_tokens": 2 * max_tokens})
    request = CutRequest(media_type=media_type, chunking=chunking, most_chunks=1_000_000, scope=_SCOPE)
    return cut_as(parse(text.encode(), media_type=media_type), request)


def _joined(text: str) -> str:
    parsed = parse(text.encode(), media_type=PLAIN)
    request = CutRequest(media_type=PLAIN, chunking=Chunking(max_tokens=16), most_chunks=1_000_000)
    return joined(cut_as(parsed, request).passages)


def _nested_json(text: str) -> object:
    return loads(f'{{"a": {json.dumps(text)}, "b": {text}}}')


READERS: dict[str, Callable[[str], object]] = {
    **{
        f"cut {strategy} {media_type}": partial(_cut, strategy=strategy, media_type=media_type, max_tokens=max_tokens)
        for strategy in STRATEGIES
        for media_type, max_tokens in ((PLAIN, 16), (MARKDOWN, 400))
    },
    **{
        f"parse {media_type}": lambda text, media_type=media_type: parse(text.encode(), media_type=media_type)
        for media_type in (HTML, MARKDOWN, CSV, JSON, JSONL)
    },
    "normal_form": lambda text: [normal_form(form, text) for form in ("NFC", "NFKC", "NFD")],
    "terms": lambda text: (analyze(text), content_terms(text), query_terms(text), count_tokens(text)),
    "query": lambda text: (route(text), keywords_of(text), entities_of(text), identifiers(text), shingles(text)),
    "highlights": lambda text: spans(text, {"blue", "蓝鲸", "a", "0"}),
    "pairs": pair_of,
    "joined": _joined,
    "json": loads,
    "json in json": _nested_json,
    "replies": lambda text: (json_in(text), read_passage(text), read_sub_queries(text, query_text="a", most=3)),
    "redact": redact,
    "examples": lambda text: (one_line(text), lines(text), split_tags(text), category_of(text), column_of(text)),
    "example books": lambda text: json_tables({text: [], "QA": [{text: text, "question": text}]}, most_rows=9),
    "prefer": lambda text: parse_prefer([text]),
}


# The longest. In every run, Markdown is read, and texts without marks are cut by every strategy.
_CUT_FROM_MARKDOWN = {f"cut {strategy} {MARKDOWN}" for strategy in STRATEGIES}


def slow_text(reader: Callable[[str], object], examples: Iterable[Callable[[int], str]]) -> Slow | None:
    """Return the first of these texts on which the reader takes superlinear time; None if there is none."""

    def quietly(text: str) -> None:
        with suppress(Rejected, ValueError, RecursionError):
            reader(text)

    quietly(_HARMLESS)
    usual = processor_time(quietly, run_of(_HARMLESS)(_SCALES[-1]), tries=2)
    floor_s = max(_LEAST_S, _TIMES * usual)
    found = (grows(quietly, example, scales=_SCALES, floor_s=floor_s) for example in examples)
    return next((slow for slow in found if slow), None)


class DescribeEveryReader:
    @pytest.mark.parametrize(
        "name",
        [pytest.param(name, marks=[pytest.mark.thorough] if name in _CUT_FROM_MARKDOWN else []) for name in READERS],
    )
    def it_takes_linear_time_on_hostile_texts(self, name: str):
        assert slow_text(READERS[name], (run_of(unit, "x") for unit in _WORST)) is None

    def it_finds_a_reader_that_takes_quadratic_time(self):
        def loop(text: str) -> list[int]:
            lines = text.split("\n")
            return [lines.count(line) for line in lines]

        assert slow_text(loop, [run_of("# h\n\nx\n\n")]) is not None
