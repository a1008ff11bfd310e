"""The rule that tells an outage from an empty result."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.answer.result import problem_of
from pipeline.query.plan import ChannelPlan, Plan, RetrievePlan
from pipeline.query.request import Degradation
from pipeline.records import ChannelName, Namespace, QueryId, TenantId
from tests.support.corpora.queries import query_of

QUERY = query_of(
    "泵如何复位",
    query_id=QueryId("1f0c9f0e-3a52-4b8e-9d37-6f1f6f8f2a11"),
    tenant_id=TenantId("acme"),
    request_id="r-1",
    namespaces=(Namespace("kb"),),
    plan=Plan(retrieve=RetrievePlan(channels={"keyword": ChannelPlan(), "semantic": ChannelPlan()})),
    created_at=0.0,
)


def losses(names: str) -> list[Degradation]:
    """``part:code`` pairs as losses."""
    pairs = [name.partition(":") for name in names.split()]
    return [Degradation(part=part, code=code or "timeout", detail="late") for part, _, code in pairs]


def code_of(usable: str, lost: str, *, chunks: int = 0) -> str | None:
    channels = {ChannelName(name) for name in usable.split()}
    problem = problem_of(QUERY, usable=channels, losses=losses(lost), chunks=["chunk"] * chunks)
    return None if problem is None else problem.code


class DescribeAQuery:
    @pytest.mark.parametrize(
        ("usable", "lost", "code"),
        [
            ("keyword semantic", "", None),  # nothing was found
            ("keyword", "semantic", None),  # nothing was found by the other one
            ("keyword semantic", "rerank context", None),
            ("", "keyword semantic", "retrieval_unavailable"),
            ("", "keyword:circuit_open semantic rerank", "retrieval_unavailable"),
            ("keyword semantic", "hydrate", "retrieval_unavailable"),  # found, and cannot be read
            ("semantic", "keyword hydrate:circuit_open", "retrieval_unavailable"),
            ("keyword semantic", "answer:no_answer", "retrieval_unavailable"),  # nobody put it together
            ("keyword semantic", "answer:internal_error", "internal_error"),
        ],
    )
    def it_fails_if_nothing_could_be_asked_or_read(self, usable, lost, code):
        assert code_of(usable, lost) == code

    @pytest.mark.parametrize("lost", ["keyword semantic", "hydrate", "answer"])
    def it_succeeds_with_whatever_it_holds(self, lost):
        assert code_of("", lost, chunks=1) is None

    def it_succeeds_if_it_was_searched_nowhere(self):
        nowhere = replace(QUERY, plan=Plan())
        assert nowhere.channels == ()
        assert problem_of(nowhere, usable=(), losses=(), chunks=()) is None

    def it_names_each_channel_that_was_lost_and_how(self):
        problem = problem_of(QUERY, usable=(), losses=losses("keyword:circuit_open semantic:timeout"), chunks=())
        assert problem is not None
        assert problem.detail == "No channel answered: keyword (circuit_open), semantic (timeout)."
        assert (problem.status, problem.type) == (503, "urn:chordwise:problem:retrieval_unavailable")
        assert (problem.instance, problem.request_id) == (f"/v1/queries/{QUERY.query_id}", "r-1")
