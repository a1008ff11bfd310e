"""Which queries Flower shows, and the ids of their tasks."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from pipeline.answer.ended_query import is_shown, task_id_of
from pipeline.records import QueryId
from tests.support.corpora.queries import ended_query

IDS = [str(uuid.uuid5(uuid.NAMESPACE_OID, str(number))) for number in range(5000)]


class DescribeSampling:
    @pytest.mark.parametrize("percent", [0, 1, 10, 50, 100])
    def it_shows_this_share(self, percent):
        shown = sum(is_shown(ended_query(query_id), percent=percent, slow_ms=1000) for query_id in IDS)
        assert shown / len(IDS) == pytest.approx(percent / 100, abs=0.02)
        assert percent not in (0, 100) or shown == len(IDS) * percent / 100

    def it_keeps_those_it_showed_when_it_shows_more(self):
        few = {query_id for query_id in IDS if is_shown(ended_query(query_id), percent=5, slow_ms=1000)}
        more = {query_id for query_id in IDS if is_shown(ended_query(query_id), percent=20, slow_ms=1000)}
        assert few < more

    @pytest.mark.parametrize(
        "special", [{"degraded": True}, {"error": "retrieval_unavailable"}, {"total_ms": 1000.0}], ids=str
    )
    def it_shows_all_that_failed_were_degraded_or_slow(self, special):
        assert all(
            is_shown(replace(ended_query(query_id), **special), percent=0, slow_ms=1000) for query_id in IDS[:100]
        )
        assert not is_shown(replace(ended_query(IDS[0]), total_ms=999.9), percent=0, slow_ms=1000)


class DescribeIds:
    def it_gives_each_task_of_a_query_the_same_id_everywhere(self):
        parts = ("keyword", "semantic", "faq", "understand")
        ids = {task_id_of(QueryId(query_id), part) for query_id in IDS[:50] for part in parts}
        assert len(ids) == 50 * len(parts)
        assert task_id_of(QueryId(IDS[0]), "keyword") == task_id_of(QueryId(IDS[0]), "keyword")
