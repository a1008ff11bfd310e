"""Queries that are taken from Redis as samples."""

from __future__ import annotations

import fakeredis

from pipeline.maintenance.sample_query_store import recent
from pipeline.query.query_store import Queries
from pipeline.records import QueryId, TenantId
from tests.support.corpora.queries import query_of

TENANT = TenantId("acme")


def it_takes_each_text_of_the_stored_queries_once():
    client = fakeredis.FakeRedis()
    queries = Queries(client, TENANT, ttl_s=60)
    for number, text in enumerate(("owl 猫头鹰", "pump 水泵", "owl 猫头鹰")):
        query = query_of(text, tenant_id=TENANT, query_id=QueryId(f"q{number}"))
        queries.open(query)
        client.rpush(f"acme:query:{query.query_id}:understood", "{}")
    samples = recent(client, limit=9)
    assert sorted((sample.tenant_id, sample.text) for sample in samples) == [
        (TENANT, "owl 猫头鹰"),
        (TENANT, "pump 水泵"),
    ]
