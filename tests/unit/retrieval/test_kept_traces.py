"""The queries whose traces are kept."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from chordwise.contract.answer import Stats
from pipeline.answer.result import Answer, AnswerContext, answer_chunks, understood
from pipeline.query.plan import Plan, RetrievePlan
from pipeline.query.request import Degradation, Query
from pipeline.records import QueryId
from pipeline.retrieval.record_trace import marks_of
from tests.support.corpora.hits import hit
from tests.support.corpora.traces import query

HIT = hit("a", 0.9, keyword=1.0)
LOST = Degradation(part="semantic", code="timeout", detail="late")


def answer(asked: Query, *, total_ms: float = 20.0, hits=(HIT,), lost=(), status="succeeded") -> Answer:
    stats = Stats(
        hits={},
        source_share={},
        expanded_queries=(),
        latency_ms={"total": total_ms},
        rerank_lift=None,
        degraded=bool(lost),
        degradations=tuple(lost),
        profile="default",
        config_version=1,
        experiment_bucket=None,
        remarks=(),
        recall={},
        fallback=None,
        ladder=None,
        second=None,
    )
    return Answer(
        query_id=asked.query_id,
        status=status,
        query=understood(asked),
        chunks=answer_chunks(hits, envelopes={}),
        context=AnswerContext(text="", token_count=0, citations=(), entities=()),
        stats=stats,
    )


class DescribeTheMarks:
    @pytest.mark.parametrize(
        ("run", "marks"),
        [
            ({}, ()),
            ({"total_ms": 1000.0}, ("slow",)),
            ({"total_ms": 999.9}, ()),
            ({"lost": [LOST]}, ("degraded",)),
            ({"hits": ()}, ("empty",)),
            ({"hits": (), "lost": [LOST], "status": "failed", "total_ms": 3000.0}, ("slow", "degraded", "failed")),
            ({"hits": (), "lost": [LOST]}, ("degraded", "empty")),
        ],
    )
    def it_names_every_reason(self, run, marks):
        asked = query()
        assert marks_of(asked, answer(asked, **run), slow_ms=1000.0, sample_percent=0.0) == marks

    def it_keeps_a_requested_trace(self):
        asked = replace(query(), trace=True)
        assert marks_of(asked, answer(asked), slow_ms=1000.0, sample_percent=0.0) == ("requested",)

    def it_takes_no_small_talk_for_an_empty_answer(self):
        asked = replace(query(), plan=Plan(retrieve=RetrievePlan(channels={})))
        assert marks_of(asked, answer(asked, hits=()), slow_ms=1000.0, sample_percent=0.0) == ()

    def it_samples_the_others_by_their_ids(self):
        asked = [replace(query(), query_id=QueryId(str(uuid.UUID(int=number * 7919)))) for number in range(4000)]
        marks = [marks_of(each, answer(each), slow_ms=1000.0, sample_percent=25.0) for each in asked]
        assert set(marks) == {(), ("sampled",)}
        assert 800 < marks.count(("sampled",)) < 1200
        assert marks_of(asked[0], answer(asked[0]), slow_ms=1000.0, sample_percent=100.0) == ("sampled",)
