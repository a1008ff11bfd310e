"""Which stage lost a chunk, case by case."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.documents.cut_document import RecordedChunk
from pipeline.query.plan import ChannelPlan
from pipeline.records import DocumentFields, Filters
from pipeline.retrieval.explain import WhyNotVerdict, why_not
from tests.support.corpora.traces import channel, query, trace

THERE = RecordedChunk(namespace="n", document_id="d", shown=True, enabled=True, fields=DocumentFields())
BOTH = {"keyword": channel({"a": 9.0, "b": 4.0}), "semantic": channel({"a": 0.9, "c": 0.5})}
DROP = ("x", "ladder", "below_similarity", 0.3, 0.5)
UNREAD = ("x", "fuse", "below_what_was_read", 60.0, 50.0)


def found(run=None, standing=THERE, scores=None, asked=None) -> WhyNotVerdict:
    return why_not("x", trace(**BOTH) if run is None else run, standing, scores or {}, query=asked or query())


class DescribeTheStage:
    @pytest.mark.parametrize(
        ("run", "standing", "scores", "stage", "reason", "value", "limit"),
        [
            (trace(returned="abx", **BOTH), THERE, {}, "returned", "returned_when_run_again", 3, None),
            (trace(drops=[DROP], **BOTH), THERE, {}, "ladder", "below_similarity", 0.3, 0.5),
            # The run is what is asked about: what became of the chunk afterwards is another matter.
            (trace(drops=[DROP], **BOTH), replace(THERE, shown=False), {}, "ladder", "below_similarity", 0.3, 0.5),
            (trace(drops=[DROP], **BOTH), None, {}, "ladder", "below_similarity", 0.3, 0.5),
            (trace(drops=[DROP, UNREAD], **BOTH), THERE, {}, "ladder", "below_similarity", 0.3, 0.5),
            (trace(**BOTH), replace(THERE, namespace="m"), {}, "namespace", "other_namespace", None, None),
            (trace(**BOTH), replace(THERE, shown=False), {}, "published", "not_published", None, None),
            (trace(drops=[UNREAD], **BOTH), replace(THERE, shown=False), {}, "published", "not_published", None, None),
            (trace(**BOTH), replace(THERE, enabled=False), {}, "published", "disabled", None, None),
            (trace(keyword=channel({"x": 1.0})), None, {}, "published", "gone", None, None),
            (trace(drops=[UNREAD], **BOTH), None, {}, "fuse", "below_what_was_read", 60, 50),
            (trace(drops=[UNREAD], **BOTH), THERE, {}, "fuse", "below_what_was_read", 60, 50),
            (trace(drops=[UNREAD], lost=["hydrate"], **BOTH), THERE, {}, "hydrate", "not_hydrated", None, None),
            (trace(keyword=channel({"x": 1.0})), THERE, {"keyword": 1.0}, "hydrate", "not_hydrated", None, None),
            (trace(), THERE, {}, "route", "searched_nowhere", None, None),
            (trace(keyword=channel(status="timeout")), THERE, {}, "channel", "channel_lost", None, None),
            (trace(keyword=BOTH["keyword"]), THERE, {"keyword": 0.0}, "recall", "no_match", None, 4.0),
            (trace(keyword=BOTH["keyword"]), THERE, {}, "recall", "no_match", None, 4.0),
            (trace(keyword=channel({})), THERE, {}, "recall", "no_match", None, None),
            (trace(**BOTH), THERE, {"keyword": 3.0, "semantic": 0.1}, "recall", "beyond_pool", 3.0, 4.0),
            (trace(**BOTH), THERE, {"keyword": 1.0, "semantic": 0.4}, "recall", "beyond_pool", 0.4, 0.5),
            (trace(**BOTH), THERE, {"keyword": 0.0, "semantic": 0.0}, "recall", "beyond_pool", 0.0, 0.5),
            (trace(**BOTH), THERE, {"semantic": 0.7}, "recall", "passed_over", 0.7, 0.5),
            (trace(semantic=channel({"a": 0.9}, pool=5)), THERE, {"semantic": 0.7}, "recall", "passed_over", 0.7, 0.9),
            # Below zero, nearer is still nearer.
            (
                trace(keyword=BOTH["keyword"], semantic=channel({"a": 0.1, "b": -0.1})),
                THERE,
                {"keyword": 1.0, "semantic": -0.3},
                "recall",
                "beyond_pool",
                1.0,
                4.0,
            ),
            (
                trace(keyword=channel(status="failed"), semantic=BOTH["semantic"]),
                THERE,
                {"keyword": 99.0, "semantic": 0.4},
                "recall",
                "beyond_pool",
                0.4,
                0.5,
            ),
        ],
    )
    def it_is_the_first_at_which_the_chunk_was_lost(self, run, standing, scores, stage, reason, value, limit):
        finding = found(run, standing, scores)
        assert (finding.stage, finding.reason) == (stage, reason)
        assert (finding.value, finding.limit) == (value, limit)

    def it_names_a_channel_that_was_lost_beside_those_that_missed_it(self):
        run = trace(keyword=channel(status="failed"), semantic=BOTH["semantic"])
        assert found(run, scores={"semantic": 0.4}).detail.endswith("The keyword channel did not answer.")

    def it_knows_the_namespaces_that_a_channel_searches_in_their_place(self):
        asked = query(channels={"faq": ChannelPlan(options={"namespaces": ["m"]})})
        finding = found(trace(faq=channel({})), replace(THERE, namespace="m"), asked=asked)
        assert (finding.stage, finding.detail) == ("recall", "The faq channel has no score for it.")

    def it_gives_every_channels_numbers(self):
        finding = found(scores={"keyword": 3.0})
        assert {name: (each["score"], each["cutoff"], each["recalled"]) for name, each in finding.channels.items()} == {
            "keyword": (3.0, 4.0, 2),
            "semantic": (None, 0.5, 2),
        }


class DescribeTheFilter:
    def it_says_more_than_the_drop_that_it_made(self):
        run = trace(drops=[("x", "filter", "filter_type", None, None)], **BOTH)
        asked = query(filters=Filters(type="a"))
        assert found(run, replace(THERE, fields=DocumentFields(type="b")), asked=asked).reason == "type"
        assert found(run, replace(THERE, fields=DocumentFields(type="a")), asked=asked).reason == "filter_type"


class DescribeLaws:
    @settings(max_examples=30)
    @given(keyword=st.none() | st.floats(-10, 10), semantic=st.none() | st.floats(-1, 1), cutoff=st.floats(-1, 1))
    def it_always_has_one_sentence_and_numbers_that_agree_with_it(self, keyword, semantic, cutoff):
        given_scores = {"keyword": keyword, "semantic": semantic}
        scores = {name: score for name, score in given_scores.items() if score is not None}
        run = trace(keyword=BOTH["keyword"], semantic=channel({"a": 1.0, "b": cutoff}))
        finding = found(run, scores=scores)
        assert finding.stage == "recall"
        assert finding.detail.endswith(".")
        if finding.reason == "beyond_pool":
            assert finding.value is not None
            assert finding.limit is not None
            assert finding.value <= finding.limit
