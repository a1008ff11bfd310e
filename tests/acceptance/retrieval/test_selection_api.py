"""The chord of workers and one process give the same bytes, whatever a query asks for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from pipeline.records import QueryId, TenantId
from pipeline.retrieval.make_channels import make_channels
from tests.conftest import gateway, make_tenant
from tests.support.corpora.documents import document, until_indexed, upload
from tests.support.stacks.corner import timeless
from tests.support.stacks.one_query import ask_in_process


def days_ago(days: float) -> str:
    return (datetime.now(UTC) - timedelta(days=days)).isoformat()


@pytest.fixture(scope="module")
def known(use) -> Iterator[tuple[TenantId, httpx.Client]]:
    """A tenant whose id is known here, and the gateway with its key; it has a dozen documents in the namespace `kb`."""
    tenant_id, key = make_tenant(use)
    with gateway(key) as found:
        teas = [
            document(
                f"d{n}",
                f"Green tea number {n % 5} 绿茶水温. " * (n % 3 + 1),
                published_at=days_ago(n * 11),
                metadata={"n": n % 4},
            )
            for n in range(12)
        ]
        upload(found, "kb", teas)
        until_indexed(found, "kb")
        yield tenant_id, found


@pytest.mark.apart
class DescribeTheSamePipelineInOneProcess:
    @pytest.mark.parametrize(
        "asked",
        [
            {},
            {"retrieve": {"fusion": {"strategy": "rrf"}}, "trace": True},
            {"facets": ["type", "metadata.n"], "group_by": "metadata.n", "group_size": 2, "top_k": 3},
            {
                "retrieve": {
                    "time_decay": {"half_life_days": 30},
                    "selection": {"dedupe": "content", "per_document": 2, "diversity": 0.3, "quality": {"enough": 3}},
                    "ladder": {"thresholds": [0.6, 0.0], "min_results": 4},
                }
            },
        ],
    )
    def it_gives_the_same_bytes_as_the_chord(self, use, known, asked):
        tenant_id, client = known
        accepted = client.post("/v1/queries", json={"query_text": "green tea 水温", "namespaces": ["kb"], **asked})
        query_id = accepted.json()["query_id"]
        by_chord = client.get(f"/v1/queries/{query_id}", params={"wait": 10})
        assert by_chord.json()["status"] == "succeeded"
        assert not by_chord.json()["stats"]["degraded"], "a busy machine lost a channel; there is nothing to compare"
        state = use.queries(tenant_id).state(QueryId(query_id))
        query = replace(state.query, deadline_at=time.time() + 10)
        ask_in_process(query, use, make_channels(use))  # loads the model, which takes longer than a channel has
        in_process = ask_in_process(replace(query, deadline_at=time.time() + 10), use, make_channels(use))
        assert timeless(in_process) == timeless(by_chord.content)
