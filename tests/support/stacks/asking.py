"""Ask queries of the real stores without Celery: every channel, then the callback, in this process."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any, Protocol

import orjson

from pipeline.query.plan import ChannelPlan, Plan, RetrievePlan
from pipeline.query.request import Query
from pipeline.records import Namespace, QueryId, TenantId
from pipeline.resources import Resources
from pipeline.retrieval import answer_query
from pipeline.retrieval.make_channels import make_channels
from tests.support.corpora.queries import query_of


class Place(Protocol):
    """Where to ask."""

    use: Resources
    tenant: TenantId
    namespace: Namespace


PATIENT = ChannelPlan(timeout_ms=2000)
BOTH = RetrievePlan(channels={"keyword": replace(PATIENT, weight=0.7), "semantic": replace(PATIENT, weight=0.3)})


class Asker:
    """One tenant's questions in one namespace."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._channels = make_channels(place.use)

    def query(self, question: str, **settings: Any) -> Query:
        """A question, not asked yet."""
        given: dict[str, Any] = {
            "namespaces": (self.place.namespace,),
            "plan": Plan(top_k=5, retrieve=BOTH),
            **settings,
        }
        return query_of(
            question,
            query_id=QueryId(str(uuid.uuid4())),
            tenant_id=self.place.tenant,
            request_id=f"request-{uuid.uuid4().hex[:8]}",
            deadline_s=10,
            **given,
        )

    def ask(self, query: Query) -> dict[str, Any]:
        """The answer as it is stored."""
        use, tenant = self.place.use, self.place.tenant
        use.queries(tenant).open(query)
        for name in query.channels:
            answer_query.recall(tenant, query.query_id, self._channels[name], use)
        answer_query.answer(tenant, query.query_id, use, self._channels)
        state = use.queries(tenant).state(query.query_id)
        assert state is not None
        assert state.answer is not None
        found: dict[str, Any] = orjson.loads(state.answer)
        return found

    def ask_for(self, question: str, **settings: Any) -> dict[str, Any]:
        """The same in one step."""
        return self.ask(self.query(question, **settings))
