"""When the last resort runs, and what it gives if nothing is configured."""

from __future__ import annotations

from pipeline.channels.channel import Recalled
from pipeline.query.plan import FallbackPlan, Plan
from pipeline.query.request import Query, Understanding
from pipeline.records import ChannelName, Namespace
from pipeline.resources import Resources
from pipeline.retrieval.arrived import Arrived
from pipeline.retrieval.fall_back import fall_back
from pipeline.settings import load
from tests.support.corpora.queries import query_of


class FakeFaqChannel:
    """Records its queries."""

    name = ChannelName.FAQ

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.queries: list[Query] = []

    def recall(self, query: Query) -> Recalled:
        self.queries.append(query)
        if self.error:
            raise self.error
        return Recalled()


def arrived(plan: FallbackPlan, *, left_s: float = 3.0, route="hybrid") -> Arrived:
    query = query_of(
        namespaces=(Namespace("kb"),),
        plan=Plan(fallback=plan),
        deadline_s=left_s,
        understanding=Understanding(route=route),
    )
    return Arrived(query=query, envelopes={}, elapsed_ms={})


def give_fallback(plan: FallbackPlan, faq: FakeFaqChannel | None = None, **changes):
    results = arrived(plan, **changes)
    channels = {ChannelName.FAQ: faq} if faq else {}
    return fall_back(results, (), Resources(load()), channels), results.journal


class DescribeFallingBack:
    def it_does_nothing_unless_it_is_configured(self):
        faq = FakeFaqChannel()
        fallback, journal = give_fallback(FallbackPlan(), faq)
        assert (fallback.chunks, fallback.given, faq.queries, journal.latency_ms) == ((), "none_configured", [], {})

    def it_gives_nothing_to_a_query_that_searches_nowhere(self):
        faq = FakeFaqChannel()
        fallback, _ = give_fallback(FallbackPlan(faq=True, hint="Call."), faq, route=None)
        assert (fallback.chunks, fallback.given, faq.queries) == ((), None, [])
