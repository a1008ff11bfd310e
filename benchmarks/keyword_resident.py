"""The fourth way: the product's keyword channel with the tenant's index in this process's memory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pymysql
from sqlalchemy import Engine

from benchmarks.keyword_designs import query
from benchmarks.keyword_rows import Tenant
from pipeline.channels.copies import Outcome
from pipeline.channels.keyword import KeywordChannel
from pipeline.channels.resident import ResidentIndexes

_MOST_BYTES = 2**28
_MOST_ASKED = 10

Cursor = pymysql.cursors.Cursor


class Resident:
    """The product's keyword channel, asked until it has read the index. Nothing is kept in MySQL beside what FULLTEXT needs."""

    name = "resident index (the product, once it was read)"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._channels: dict[str, KeywordChannel] = {}
        self._asked = 0
        self.loading: dict[str, dict[str, Any]] = {}

    def load(self, cursor: Cursor, tenant: Tenant) -> None:  # noqa: ARG002 - has a pool
        """Have it read, and note what that took."""
        outcomes: list[Outcome] = []
        spent: list[float] = []

        def at_once(work: Any) -> None:
            before = time.process_time()
            work()
            spent.append(time.process_time() - before)

        indexes = ResidentIndexes(self._engine, most_bytes=_MOST_BYTES, tell=outcomes.append, start=at_once)
        self._channels[tenant.tenant_id] = KeywordChannel(self._engine, indexes)
        words = tenant.questions(1)[0]
        for _ in range(_MOST_ASKED):
            if not outcomes:
                self._ask(tenant, words)
        if outcomes != ["loaded"]:
            raise RuntimeError(f"the index was not read: {outcomes}")
        self.loading[tenant.tenant_id] = {
            "load_process_ms": round(spent[0] * 1000, 1),
            "load_mb": round(indexes.byte_count / 1e6, 2),
        }

    def add(self, cursor: Cursor, tenant: Tenant, first: int, last: int) -> None:
        """Nothing is written."""

    def search(self, cursor: Cursor, tenant: Tenant, words: Sequence[int]) -> list[str]:  # noqa: ARG002 - has a pool
        """Ask the channel; every question counts as a new one."""
        return self._ask(tenant, words)

    def _ask(self, tenant: Tenant, words: Sequence[int]) -> list[str]:
        self._asked += 1
        return list(self._channels[tenant.tenant_id].recall(query(tenant, words, self._asked)).chunk_ids)
