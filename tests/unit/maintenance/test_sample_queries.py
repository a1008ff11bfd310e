"""Queries that are taken from Redis as samples."""

from __future__ import annotations

import fakeredis
from pydantic import TypeAdapter

from pipeline.maintenance.sample_query_store import recent
from pipeline.query.request import Query
from tests.support.corpora.queries import query_of

STORED = TypeAdapter(Query)


def it_takes_each_text_once_and_passes_over_what_else_belongs_to_a_query():
    client = fakeredis.FakeRedis()
    for number, text in enumerate(("owl 猫头鹰", "pump 水泵", "owl 猫头鹰")):
        client.hset(f"acme:query:{number}", "query", STORED.dump_json(query_of(text)))
        client.rpush(f"acme:query:{number}:understood", "{}")
    assert sorted(sample.text for sample in recent(client, limit=9)) == ["owl 猫头鹰", "pump 水泵"]
