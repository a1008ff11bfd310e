"""A process that answers by words from memory whenever it may, for tests of the copies it holds."""

from __future__ import annotations

from typing import Any

from pipeline.channels import copies
from pipeline.channels.keyword import KeywordChannel
from pipeline.channels.port import Recalled
from pipeline.channels.resident import ResidentIndexes
from pipeline.flows.resources import Resources
from pipeline.records import Namespace, TenantId
from pipeline.stores.chunk_edits import ChunkEdits
from pipeline.stores.work import unit_of_work
from tests.integration.test_ingest_flow import Corner, _upload
from tests.integration.test_keyword_channel import query

ANIMALS = {
    "foxes": "Foxes hunt at night, and red foxes hunt hares.",
    "wolves": "Wolves hunt in packs. A red wolf hunts alone.",
    "hares": "Hares run from foxes.",
    "order": "Order PPR-9087 for the night shift.",
    "salt": "高血压患者应当少吃盐。",
}


def animals(use: Resources, tenant: TenantId, namespace: Namespace) -> Corner:
    """A namespace with a document on each of them."""
    found = Corner(use, tenant, namespace)
    found.ingest(*(_upload(name, body, title=f"Tale {name[0]}") for name, body in ANIMALS.items()))
    return found


class Process:
    """A process that answers from memory whenever it may, and makes copies at once where others do it aside."""

    def __init__(self, corner: Corner, *, most_bytes: int = 2**20, rests: float = 0.0) -> None:
        self.corner, self.outcomes = corner, list[str]()
        self.indexes = ResidentIndexes(
            corner.use.mysql,
            most_bytes=most_bytes,
            tell=self.outcomes.append,
            start=lambda work: work(),
            rests=rests,
        )
        self.channel = KeywordChannel(corner.use.mysql, self.indexes)

    def ask(self, question: str, corner: Corner | None = None, **options: Any) -> Recalled:
        return self.channel.recall(query(corner or self.corner, question, **options))

    def warm(self, corner: Corner | None = None, **options: Any) -> None:
        for _ in range(copies._ASKED):
            self.ask("foxes", corner, **options)

    def method(self, corner: Corner | None = None, **options: Any) -> str:
        return str((self.ask("foxes", corner, **options).guard or {})["method"])

    def documents(self, question: str, **options: Any) -> list[str]:
        with unit_of_work(self.corner.use.mysql) as work:
            found = list(self.ask(question, **options).chunk_ids)
            known = ChunkEdits(work.connection, self.corner.tenant).named(found)
        return [known[chunk_id].generation.document_id for chunk_id in found]
