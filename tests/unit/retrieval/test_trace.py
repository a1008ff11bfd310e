"""Traces of a run: numbers and ids, and sentences made of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordwise.contract.answer import Stats
from pipeline.answer.result import Answer, AnswerContext, answer_chunks, understood
from pipeline.query.request import Envelope
from pipeline.ranking.hits import Drop
from pipeline.records import ChannelName, TenantId
from pipeline.retrieval.arrived import Arrived, Journal
from pipeline.retrieval.fall_back import fallback_chunk, hint_passage
from pipeline.retrieval.record_trace import explain_position, mentions, trace_from
from tests.support.corpora.hits import hit
from tests.support.corpora.traces import query

ASKED = query()
ENVELOPES = {
    ChannelName.KEYWORD: Envelope(channel=ChannelName.KEYWORD, status="ok", chunk_ids=("a", "b"), scores=(7.0, 3.0)),
}


def answer(*hits, chunks=None) -> Answer:
    stats = Stats(
        hits={},
        source_share={},
        expanded_queries=(),
        latency_ms={"total": 5.0},
        rerank_lift=None,
        degraded=False,
        degradations=(),
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
        query_id="q",
        status="succeeded",
        query=understood(ASKED),
        chunks=answer_chunks(hits, envelopes={}) if chunks is None else chunks,
        context=AnswerContext(text="", token_count=0, citations=(), entities=()),
        stats=stats,
    )


def traced(*hits, orders=None, **more):
    journal = Journal(
        tracing=True,
        orders=[("fuse", hits), ("select", hits)] if orders is None else orders,
        **more,
    )
    journal.dropped([Drop(chunk_id="z", stage="ladder", reason="below_similarity", value=0.1, limit=0.5)])
    return trace_from(Arrived(query=ASKED, envelopes=ENVELOPES, elapsed_ms={}, journal=journal), answer(*hits))


A = hit("a", 0.9, keyword=1.0, semantic=0.8, text="a passage nobody else should read")
B = hit("b", 0.4, keyword=0.8)


class DescribeTheRecord:
    def it_names_a_channel_that_never_came_back(self):
        assert traced(A)["channels"]["semantic"]["status"] == "missing"

    def it_counts_rounds_by_their_fusion(self):
        orders = [("fuse", [A]), ("select", [A]), ("fuse", [A, B]), ("rerank", [B, A])]
        assert [(each["stage"], each["round"]) for each in traced(A, B, orders=orders)["stages"]] == [
            ("fuse", 1),
            ("select", 1),
            ("fuse", 2),
            ("rerank", 2),
        ]

    @pytest.mark.parametrize(("chunk_id", "known"), [("a", True), ("b", True), ("z", True), ("y", False)])
    def it_mentions_what_was_found_dropped_or_returned(self, chunk_id, known):
        assert mentions(traced(A), chunk_id) is known


class DescribeTheSentences:
    def it_names_every_number_in_the_order_they_counted(self):
        moved = replace(A, score=0.77, decay=0.5, rerank=0.8, from_rank=3, duplicates=("d",))
        [said] = traced(moved, rerank_weight=0.25)["explained"]
        assert said == (
            "1. document of a: keyword found it at place 1 with 1 (1.000 from the worst candidate, 0, to the best, 1),"
            " adding 0.5000; semantic found it at place 1 with 0.8 (0.800 from the worst candidate, 0, to the best, 1),"
            " adding 0.4000. That makes 0.9000; its age leaves 0.500 of that; it stands for 1 more that are the same, and"
            " has their channels' say; reading it scored 0.800, which counts 25% beside the order so far, and took it"
            " from place 3 towards this one. Its score is 0.7700."
        )

    def it_leaves_out_what_had_no_part(self):
        [said] = traced(B)["explained"]
        assert not any(word in said for word in ("age", "reading", "candidates like", "stands for"))

    def it_says_what_the_last_resort_gave_and_why(self):
        passage = hint_passage("Call us.", tenant_id=TenantId("t"), namespace="n")
        chunk = fallback_chunk(passage, "hint", "empty", score=0.0, rank=1, below=1.0)
        assert explain_position(1, chunk, None, None) == (
            "1. fallback-hint is fallback: a hint, because nothing was found; it stands with 0.0000."
        )

    @given(order=st.permutations("abcd"))
    def it_has_one_for_each_chunk_in_order(self, order):
        hits = [hit(name, 1 - place / 10, keyword=0.5) for place, name in enumerate(order)]
        said = traced(*hits)["explained"]
        assert [each.split(":")[0] for each in said] == [
            f"{place}. document of {name}" for place, name in enumerate(order, start=1)
        ]
