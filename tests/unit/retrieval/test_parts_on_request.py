"""The parts that an answer has on request, and lacks otherwise."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from chordwise.contract.answer import AnswerChunk
from pipeline.answer.highlights import highlight
from pipeline.query.plan import ContextOptions, Plan
from pipeline.retrieval.arrived import Arrived
from pipeline.retrieval.compose import empty_answer, render
from tests.support.corpora.hits import answer_chunk
from tests.support.corpora.queries import query_of

CHUNK = answer_chunk("c", "绿茶 green tea")


def rendered(plan: Plan, *chunks: AnswerChunk) -> dict:
    answer = empty_answer(Arrived(query=query_of(plan=plan), envelopes={}, elapsed_ms={}))
    return json.loads(render(replace(answer, chunks=chunks)))


class DescribeRender:
    def it_leaves_out_what_nobody_asked_for_and_no_other_empty_field(self):
        answer = rendered(Plan(), CHUNK)
        assert "context" not in answer
        [chunk] = answer["chunks"]
        assert "highlights" not in chunk
        assert (chunk["title"], chunk["rerank"], chunk["decay"]) == (None, None, None)
        assert answer["stats"]["rerank_lift"] is None

    def it_shows_an_empty_context_that_was_asked_for(self):
        context = {"text": "", "token_count": 0, "citations": [], "entities": []}
        assert rendered(Plan(context=ContextOptions()))["context"] == context

    @pytest.mark.parametrize(
        ("term", "spans"),
        [("tea", [{"start": 9, "end": 12}]), ("绿茶", [{"start": 0, "end": 2}]), ("coffee", [])],
    )
    def it_shows_highlights_that_were_asked_for_also_if_there_are_none(self, term, spans):
        answer = rendered(Plan(), *highlight([CHUNK], [term]))
        assert answer["chunks"][0]["highlights"] == spans
