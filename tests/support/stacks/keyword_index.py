"""A host with keyword indexes of its own: an indexer over a folder, and the channel that reads there."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.channels.channel import Recalled
from pipeline.channels.keyword_channel import KeywordChannel
from pipeline.channels.local_indexes import LocalIndexes
from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents.chunk_edit_store import ChunkEdits
from pipeline.keyword.fulltext_store import KeywordIndex
from pipeline.keyword_index.host_words import HostWords
from pipeline.maintenance.index_keywords import KeywordIndexer
from tests.integration.keyword.test_keyword_channel import query
from tests.support.stacks.corner import Corner

_SETTLED_WITHIN_S = 20.0


class Host:
    """An indexer that works when a test says so, and a channel that waits for it no longer than ``wait_s``."""

    def __init__(self, corner: Corner, root: Path, *, wait_s: float = 0.0) -> None:
        self.corner, self.root = corner, root
        self.indexer = KeywordIndexer(corner.use.mysql, root, corner.use.meter, looked_at_every_s=0.0)
        self.channel = KeywordChannel(corner.use.mysql, local=LocalIndexes(root, wait_s=wait_s))

    def catch_up(self) -> None:
        """Bring the indexes to what MySQL shows now."""
        until = time.monotonic() + _SETTLED_WITHIN_S
        while self.indexer.step().tenants:
            assert time.monotonic() < until, "the index does not catch up"
            time.sleep(0.01)

    def index_of(self, corner: Corner, mysql: Callable[[], KeywordIndex]) -> HostWords:
        """The index of a corner's tenant as it is."""
        index = LocalIndexes(self.root).last_known(corner.tenant, [corner.namespace])
        assert index is not None
        return HostWords(replace(index, is_current=True), mysql)

    def ask(self, question: str, corner: Corner | None = None, **options: Any) -> Recalled:
        return self.channel.recall(query(corner or self.corner, question, **options))

    def method(self, **options: Any) -> str:
        return str((self.ask("foxes", **options).guard or {})["method"])

    def documents(self, question: str, corner: Corner | None = None, **options: Any) -> list[str]:
        corner = corner or self.corner
        with unit_of_work(corner.use.mysql) as work:
            found = list(self.ask(question, corner, **options).chunk_ids)
            known = ChunkEdits(work.connection, corner.tenant).named(found)
        return [known[chunk_id].generation.document_id for chunk_id in found]
