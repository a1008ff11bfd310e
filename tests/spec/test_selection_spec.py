"""Selection as a whole, for orders and plans drawn at random: limits, repetitions, early ends."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.query.plan import DecayPlan, Plan, QualityPlan, RerankPlan, RetrievePlan, SelectionPlan
from pipeline.query.request import QueryMoment
from pipeline.ranking.fusion import Contribution
from pipeline.ranking.selection import balanced, decayed, deduplicated, select
from pipeline.records import ChannelName
from pipeline.retrieval.load_text import counts_alone, enough, needed
from tests.support.corpora.hits import hit, ids
from tests.support.corpora.selections import NOW, plan

PRESENT = QueryMoment(at=NOW)
GRADES = ("优秀", "良好", "一般")
orders = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.2, 0.39, 0.4, 0.41, 0.8, 1.0]) | st.floats(0, 1),
        st.sampled_from(["one", "two", "three"]),
        st.sampled_from(["a red fox", "A  red FOX", "a blue whale", "绿茶用八十度的水", "x"]),
        st.sampled_from([*GRADES, None]),
        st.none() | st.integers(-10, 900),
    ),
    max_size=14,
).map(
    lambda rows: [
        hit(
            f"c{place:02}",
            score,
            document=document,
            text=text,
            semantic=score,
            metadata={} if grade is None else {"quality_grade": grade},
            published_at=None if age is None else NOW - timedelta(days=age),
        )
        for place, (score, document, text, grade, age) in enumerate(sorted(rows, key=lambda row: -row[0]))
    ]
)
selections = st.builds(
    SelectionPlan,
    dedupe=st.sampled_from(["chunk", "document", "content"]),
    per_document=st.none() | st.integers(1, 3),
    diversity=st.sampled_from([0.0, 0.3, 1.0]),
    quality=st.none() | st.builds(QualityPlan, enough=st.integers(0, 6), near_tie=st.sampled_from([0.0, 0.02, 0.3])),
)
plans = st.builds(
    lambda top_k, threshold, decay, selection: Plan(
        top_k=top_k,
        retrieve=RetrievePlan(score_threshold=threshold, time_decay=decay, selection=selection),
        rerank=RerankPlan(enabled=False),
    ),
    st.integers(1, 5),
    st.sampled_from([0.0, 0.4]),
    st.none() | st.builds(DecayPlan, half_life_days=st.sampled_from([1.0, 30.0, 300.0])),
    selections,
)


def whole(hits, asked: Plan):
    """Decay, dedupe and selection, as the pipeline runs them when nothing is reranked."""
    retrieve = asked.retrieve
    if retrieve.time_decay is not None:
        hits = decayed(hits, retrieve.time_decay, PRESENT)
    hits, same = deduplicated(hits, retrieve.selection.dedupe)
    kept, left_out = select(hits, asked)
    return kept, [*same, *left_out]


class DescribeSelection:
    def it_drops_by_threshold_then_place(self):
        kept, dropped = select([hit("a", 0.9), hit("b", 0.8), hit("c", 0.2)], plan(1, threshold=0.5))
        assert ids(kept) == "a"
        assert [(drop.chunk_id, drop.stage, drop.reason, drop.value, drop.limit) for drop in dropped] == [
            ("c", "threshold", "below_score_threshold", 0.2, 0.5),
            ("b", "select", "beyond_top_k", 2, 1),
        ]

    @settings(max_examples=30)
    @given(orders, plans)
    def it_invents_nothing_repeats_nothing_and_keeps_to_its_limits(self, hits, asked):
        kept, dropped = whole(hits, asked)
        how = asked.retrieve.selection
        assert len(kept) <= asked.top_k
        # Every hit is returned or left out for a reason, exactly once.
        assert sorted(each.chunk_id for each in [*kept, *dropped]) == sorted(each.chunk_id for each in hits)
        assert all(each.confidence >= asked.retrieve.score_threshold for each in kept)
        documents = [each.passage.document_id for each in kept]
        if how.per_document is not None:
            assert all(documents.count(each) <= how.per_document for each in documents)
        if how.dedupe == "document":
            assert len(set(documents)) == len(documents)
        if how.diversity == 0:
            best = max((each.score for each in hits), default=0.0)
            slack = how.quality.near_tie * best if how.quality else 0.0
            scores = [each.score for each in kept]
            assert all(later <= earlier + slack for earlier, later in pairwise(scores))

    @settings(max_examples=30)
    @given(orders, plans)
    def it_is_as_sure_of_the_answer_after_reading_enough_as_after_reading_everything(self, hits, asked):
        position, batch = 0, needed(asked)
        while position < len(hits):
            read = hits[:position]
            if counts_alone(asked):
                if len(read) >= needed(asked):
                    break
            elif enough(read, hits[position].score, asked, PRESENT):
                break
            position += batch
        some, _ = whole(hits[:position], asked)
        everything, _ = whole(hits, asked)
        assert [(each.chunk_id, each.score) for each in some] == [(each.chunk_id, each.score) for each in everything]

    @settings(max_examples=30)
    @given(orders, selections)
    def it_keeps_who_found_what_was_merged(self, hits, how):
        kept, _ = deduplicated(hits, how.dedupe)
        by_id = {each.chunk_id: each for each in hits}
        for each in kept:
            merged = [by_id[each.chunk_id], *(by_id[chunk_id] for chunk_id in each.duplicates)]
            found = {part.channel for one in merged for part in one.fused.contributions}
            assert {part.channel for part in each.fused.contributions} == found
            assert each.score == max(one.score for one in merged)


class DescribeBalancedAllocation:
    def found_by(self, chunk_id, score, **ranks):
        parts = tuple(
            Contribution(ChannelName(channel), rank, score, score, score) for channel, rank in sorted(ranks.items())
        )
        given = hit(chunk_id, score)
        return replace(given, fused=given.fused._replace(contributions=parts))

    def it_fills_every_place_and_gives_each_channel_its_share(self):
        hits = [
            self.found_by("a", 0.9, keyword=1),
            self.found_by("b", 0.8, keyword=2),
            self.found_by("c", 0.7, keyword=3),
            self.found_by("d", 0.6, keyword=4),
            self.found_by("e", 0.2, semantic=1),
            self.found_by("f", 0.1, semantic=2),
        ]
        assert ids(balanced(hits, 5)) == "a b c e f"
        assert ids(balanced(hits, 3)) == "a b e"
        assert ids(balanced(hits, 1)) == "a"

    def it_fills_up_where_channels_found_the_same(self):
        hits = [self.found_by(name, 1 - n / 10, keyword=n + 1, semantic=n + 1) for n, name in enumerate("abcde")]
        assert ids(balanced(hits, 5)) == "a b c d e"
        assert ids(balanced(hits, 3)) == "a b c"
