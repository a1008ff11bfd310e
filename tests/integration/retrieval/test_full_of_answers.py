"""A small Redis of its own: a tenant that asks for a thousand chunks at a time fills its share, and another one notices
nothing."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import orjson
import pytest
import redis

from pipeline.database.redis_memory import read_redis_memory
from pipeline.errors import QuotaExceeded
from pipeline.query.plan import Plan
from pipeline.query.query_store import Queries
from pipeline.query.request import Envelope
from pipeline.records import ChannelName, QueryId, TenantId
from pipeline.tenants.answer_memory_store import answer_bytes
from tests.support.corpora.queries import query_of
from tests.support.servers.brokers import own_redis

MIB = 2**20
HEADROOM = 40 * MIB
NOISY, CALM = TenantId("noisy"), TenantId("calm")
WORDS = ("水泵", "压力", "密封圈", "润滑脂", "启动", "pump", "valve", "pressure", "seal", "bearing", "grease", "start")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[redis.Redis]:
    folder: Path = tmp_path_factory.mktemp("redis")
    with closing(own_redis(folder)) as server:
        server.start()
        with redis.Redis.from_url(server.url) as client:
            yield client


@pytest.fixture
def small(server: redis.Redis) -> redis.Redis:
    """The server with 40 MiB to spare, and little else in it."""
    server.config_set("maxmemory", 0)
    server.flushall()
    server.config_set("maxmemory", read_redis_memory(server).used + HEADROOM)
    return server


def answer_with(chunks: int, seed: int) -> bytes:
    """An answer with as many chunks, about 2.5 kB each, in both languages."""
    words = random.Random(seed)
    texts = [" ".join(words.choices(WORDS, k=180)) for _ in range(chunks)]
    return orjson.dumps(
        {"chunks": [{"chunk_id": str(uuid.UUID(int=words.getrandbits(128))), "text": text} for text in texts]}
    )


LARGE = [answer_with(1000, seed) for seed in range(2)]


class Tenant:
    """One tenant's queries, answered at once."""

    def __init__(self, client: redis.Redis, tenant_id: TenantId, *, top_k: int) -> None:
        self.queries = Queries(client, tenant_id, ttl_s=900, memory=lambda: read_redis_memory(client))
        self._tenant_id, self._top_k = tenant_id, top_k

    def ask(self, answer: bytes) -> QueryId:
        query = query_of(
            "水泵", query_id=QueryId(str(uuid.uuid4())), tenant_id=self._tenant_id, plan=Plan(top_k=self._top_k)
        )
        ids = tuple(str(uuid.uuid4()) for _ in range(self._top_k))
        found = Envelope(channel=ChannelName.KEYWORD, status="ok", chunk_ids=ids, scores=(0.123456789,) * self._top_k)
        self.queries.open(query)
        self.queries.report(query, found, elapsed_ms=1.0)
        assert self.queries.answer(query, answer, trace=answer[: len(answer) // 4])
        return query.query_id


class DescribeAFullRedis:
    def it_refuses_the_tenant_who_fills_it_and_no_other(self, small):
        noisy, calm = Tenant(small, NOISY, top_k=1000), Tenant(small, CALM, top_k=10)
        refused, given = 0, {}
        for number in range(60):
            try:
                noisy.ask(LARGE[number % 2])
            except QuotaExceeded:
                refused += 1
            answer = answer_with(10, number)
            given[calm.ask(answer)] = answer
        assert refused > 30
        assert all(calm.queries.field(query_id, "answer") == answer for query_id, answer in given.items())
        memory = read_redis_memory(small)
        assert memory.free > HEADROOM / 3

    def it_counts_what_redis_uses(self, small):
        before = read_redis_memory(small).used
        calm = Tenant(small, CALM, top_k=10)
        for number in range(600):  # 6 MB: buffers of connections come and go by 0.3
            calm.ask(answer_with(10, number % 20))
        used = read_redis_memory(small).used - before
        assert 0.8 <= answer_bytes(small, CALM) / used <= 1.25

    def it_shares_what_is_free_between_several_who_fill_it(self, small):
        crowd = [Tenant(small, TenantId(f"noisy-{number}"), top_k=1000) for number in range(4)]
        for _ in range(6):
            for tenant in crowd:
                try:
                    tenant.ask(LARGE[0])
                except QuotaExceeded:
                    continue
        held = [answer_bytes(small, TenantId(f"noisy-{number}")) for number in range(4)]
        assert min(held) > 0.4 * max(held)
        Tenant(small, CALM, top_k=10).ask(answer_with(10, 1))

    def it_deletes_queries_although_redis_is_full(self, small):
        calm = Tenant(small, CALM, top_k=10)
        ids = [calm.ask(answer_with(10, number)) for number in range(3)]
        small.config_set("maxmemory", 1)
        assert all(calm.queries.cancel(query_id) for query_id in ids)
        assert not small.keys("calm:query:*")
