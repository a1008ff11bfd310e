"""Documents about animals, questions about them, and the same answers of two channels."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from pipeline.channels.channel import Recalled
from pipeline.database.unit_of_work import unit_of_work
from pipeline.records import ChunkId, Namespace, TenantId
from pipeline.resources import Resources
from tests.integration.ingestion.test_ingest_flow import Corner, _upload

ANIMALS = {
    "foxes": "Foxes hunt at night, and red foxes hunt hares.",
    "wolves": "Wolves hunt in packs. A red wolf hunts alone.",
    "hares": "Hares run from foxes.",
    "order": "Order PPR-9087 for the night shift.",
    "salt": "高血压患者应当少吃盐。",
}
QUESTIONS = (
    "red fox",
    "tale f w",
    "hunt night",
    "PPR-9087",
    "高血压 salt",
    "red wolf hunts hares at night",
    "unicorn",
    "the",
)


def animals(use: Resources, tenant: TenantId, namespace: Namespace) -> Corner:
    """A namespace with a document on each of them."""
    found = Corner(use, tenant, namespace)
    found.ingest(*(_upload(name, body, title=f"Tale {name[0]}") for name, body in ANIMALS.items()))
    return found


def same(found: Recalled, expected: Recalled) -> bool:
    """Whether two channels found the same, however they did."""
    return (found.chunk_ids, found.scores, found.upper_bound) == (
        expected.chunk_ids,
        pytest.approx(expected.scores, abs=1e-9),
        pytest.approx(expected.upper_bound),
    )


def chunk_of(corner: Corner, document_id: str) -> ChunkId:
    with unit_of_work(corner.use.mysql) as work:
        statement = "SELECT chunk_id FROM chunks WHERE tenant_id = :tenant AND document_id = :document"
        values = {"tenant": corner.tenant, "document": document_id}
        return ChunkId(work.connection.execute(text(statement), values).scalars().all()[-1])
