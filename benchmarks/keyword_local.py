"""The fourth way: the product's keyword channel with an index in a folder of this host."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pymysql
from sqlalchemy import Engine

from benchmarks.keyword_designs import query
from benchmarks.keyword_rows import Tenant
from pipeline.channels.keyword_channel import KeywordChannel
from pipeline.channels.local_indexes import LocalIndexes
from pipeline.maintenance.index_keywords import KeywordIndexer
from pipeline.resources import Resources
from pipeline.settings import settings

Cursor = pymysql.cursors.Cursor


class Local:
    """The product's keyword channel, its index built from MySQL in a temporary folder."""

    name = "index of the host (the product)"

    def __init__(self, engine: Engine) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._root = Path(self._folder.name)
        self._indexer = KeywordIndexer(engine, self._root, Resources(settings()).meter)
        self._channel = KeywordChannel(engine, LocalIndexes(self._root, wait_s=0.0))
        self._asked = 0

    def load(self) -> dict[str, float]:
        """Build the index of every tenant, and return the cost in this process and on the disk."""
        before = time.process_time()
        while self._indexer.step().tenants:
            time.sleep(0.05)
        self._indexer.close()
        return {
            "load_process_ms": round((time.process_time() - before) * 1000, 1),
            "load_mb": round(sum(file.stat().st_size for file in self._root.rglob("*") if file.is_file()) / 1e6, 2),
        }

    def add(self, cursor: Cursor, tenant: Tenant, first: int, last: int) -> None:
        """Do nothing: MySQL is not written."""

    def search(self, cursor: Cursor, tenant: Tenant, words: Sequence[int]) -> list[str]:  # noqa: ARG002 - has a pool
        """Call the channel; every question counts as a new one. Raises RuntimeError if MySQL answers it."""
        self._asked += 1
        found = self._channel.recall(query(tenant, words, self._asked))
        if (found.guard or {})["method"] != "index":
            raise RuntimeError("the index does not answer")
        return list(found.chunk_ids)
