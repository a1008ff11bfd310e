"""The last resort in the flow: when it is asked, and what it does without."""

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


class FaqAtTheEdge:
    """Notes what it is asked."""

    name = ChannelName.FAQ

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.asked: list[Query] = []

    def recall(self, query: Query) -> Recalled:
        self.asked.append(query)
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


def give_fallback(plan: FallbackPlan, faq: FaqAtTheEdge | None = None, **changes):
    said = arrived(plan, **changes)
    channels = {ChannelName.FAQ: faq} if faq else {}
    return fall_back(said, (), Resources(load()), channels), said.journal


class DescribeFallingBack:
    def it_asks_nothing_unless_something_is_configured(self):
        faq = FaqAtTheEdge()
        found, journal = give_fallback(FallbackPlan(), faq)
        assert (found.chunks, found.given, faq.asked, journal.latency_ms) == ((), "none_configured", [], {})

    def it_gives_nothing_to_what_is_searched_nowhere(self):
        faq = FaqAtTheEdge()
        found, _ = give_fallback(FallbackPlan(faq=True, hint="Call."), faq, route=None)
        assert (found.chunks, found.given, faq.asked) == ((), None, [])
