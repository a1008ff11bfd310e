"""Feedback in MySQL: said twice at once, counted by arm, and of what no table of documents holds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from chordwise.contract.ratings import FeedbackShape
from pipeline.administration.rate import judgment_page
from pipeline.database.unit_of_work import unit_of_work
from pipeline.feedback.judgments import feedback_id
from pipeline.feedback.rating_store import FeedbackStore
from pipeline.records import Namespace, QueryId
from tests.conftest import make_tenant

NOW = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
QUERY = "11111111-1111-4111-8111-111111111111"


@pytest.fixture
def tenant(use_alone):
    return make_tenant(use_alone)[0]


def said(rating="good", *, query=QUERY, document="d", source="faq", **more):
    return FeedbackShape(
        feedback_id=feedback_id(query, "document", document, rating, more.get("session_id")),
        created_at=NOW,
        rated_at=NOW,
        query_id=QueryId(query),
        query_text="何时换油 🛢",
        namespaces=("kb", "知识"),
        namespace="知识",
        document_id=document,
        chunk_id=None,
        rating=rating,
        source=source,
        profile="default",
        config_version=3,
        **more,
    )


def add(use, tenant, feedback):
    with unit_of_work(use.mysql) as work:
        return FeedbackStore(work.connection, tenant).add(feedback)


class DescribeFeedbackInMySql:
    def it_keeps_one_of_many_that_say_the_same_at_once(self, use_alone, tenant):
        many = [replace(said(), created_at=NOW + timedelta(milliseconds=n)) for n in range(12)]
        with ThreadPoolExecutor(6) as threads:
            answers = list(threads.map(lambda each: add(use_alone, tenant, each), many))
        assert sum(new for _, new in answers) == 1
        with unit_of_work(use_alone.mysql) as work:
            store = FeedbackStore(work.connection, tenant)
            assert len(store.page(since=None, namespace=None, rating=None, before=None, limit=50)) == 1

    def it_judges_what_a_channel_brought_along_but_no_document_that_is_gone(self, use_alone, tenant):
        add(use_alone, tenant, said(document="curated", source="faq"))
        add(use_alone, tenant, said(document="deleted", source="keyword"))
        namespace = Namespace("知识")
        [found], after = judgment_page(tenant, namespace, min_votes=1, after=None, limit=5, use=use_alone)
        assert (list(found.relevant), after) == (["curated"], None)
        other = make_tenant(use_alone)[0]
        assert judgment_page(other, namespace, min_votes=1, after=None, limit=5, use=use_alone) == ([], None)
