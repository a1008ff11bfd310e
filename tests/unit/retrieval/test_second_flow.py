"""The report of a second retrieval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pipeline.channels.channel import AbsentChannel
from pipeline.query.plan import ChannelPlan, Plan, RetrievePlan, SecondRetrievalPlan
from pipeline.query.request import Degradation, Query, Understanding
from pipeline.records import ChannelName, Namespace
from pipeline.retrieval.arrived import Arrived
from pipeline.retrieval.retry_poor import RetrievalRound, retry_poor
from tests.support.corpora.queries import query_of

CHANNELS = {ChannelName.KEYWORD: AbsentChannel(ChannelName.KEYWORD)}


@pytest.fixture
def first() -> RetrievalRound:
    query = query_of(
        "PPR 9087",
        namespaces=(Namespace("kb"),),
        plan=Plan(
            retrieve=RetrievePlan(
                channels={"keyword": ChannelPlan()}, second=SecondRetrievalPlan(min_hits=5, expand=True)
            )
        ),
        deadline_s=60,
    )
    return RetrievalRound(arrived=Arrived(query=query, envelopes={}, elapsed_ms={}), ordered=[], returned=[])


def it_does_not_say_that_it_expanded_what_has_no_other_wording(first):
    journal = first.arrived.journal
    found = retry_poor(
        first, lambda _: pytest.fail("there was nothing to ask again"), CHANNELS, expand=lambda q: (q, ())
    )
    assert (found, journal.second.changed, journal.degradations) == (first, {}, [])


def it_says_that_it_expanded(first):
    def expand(query: Query) -> tuple[Query, Sequence[Degradation]]:
        return replace(query, understanding=Understanding(sub_queries=("pump 9087",))), ()

    found = retry_poor(first, lambda arrived: replace(first, arrived=arrived), CHANNELS, expand=expand)
    assert first.arrived.journal.second.changed == {"expand": True}
    assert found.arrived.query.understanding == Understanding(sub_queries=("pump 9087",))


def it_names_a_model_that_failed_to_expand(first):
    lost = Degradation(part="expand", code="rewriter_unavailable", detail="expand failed")
    journal = first.arrived.journal
    found = retry_poor(first, lambda _: pytest.fail("nothing changed"), CHANNELS, expand=lambda query: (query, [lost]))
    assert (found, journal.second.changed, journal.degradations) == (first, {}, [lost])
