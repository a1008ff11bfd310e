"""A large and a small tenant with clustered vectors, in databases of their own with a low threshold for indexes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Row, text

from benchmarks.clusters import Clusters
from benchmarks.vectors import fill
from pipeline.records import ChunkId, Filters, Namespace, TenantId
from pipeline.resources import Resources
from pipeline.semantic.search_store import NearestChunks
from tests.conftest import make_tenant

LARGE, SMALL, GROWN, THRESHOLD = 8000, 300, 1200, 1000
BOOKS, NOTES = Namespace("books"), Namespace("notes")


class Library:
    """One large tenant with two namespaces, one small one, and a reader's connections."""

    def __init__(self, use: Resources, *, large: int = LARGE) -> None:
        self.use = use
        self.reader = Resources(use.settings, timeout_s=20.0, reading=True)
        self.clusters = Clusters.of(large, dimension=use.settings.embedding_dim, seed=3)
        self.large, self.small = make_tenant(use)[0], make_tenant(use)[0]
        fill(
            use,
            self.large,
            self.clusters.passages(large * 9 // 10),
            namespace=BOOKS,
            metadata=lambda place: {"rare": place % 900 == 0, "half": place % 2, "tenth": place % 10 == 0},
        )
        fill(use, self.large, self.clusters.passages(large // 10), namespace=NOTES)
        fill(use, self.small, self.clusters.passages(SMALL), namespace=BOOKS)
        self.questions = self.clusters.questions(25)

    def search(self, tenant_id: TenantId, question: NDArray[np.float32], **asked: object) -> NearestChunks:
        values = {"namespaces": [BOOKS, NOTES], "filters": Filters(), "limit": 50, **asked}
        return self.reader.search_in(self.use.spaces.base, tenant_id).nearest(question, **values)

    def exact(self, tenant_id: TenantId, question: NDArray[np.float32], **asked: object) -> list[ChunkId]:
        values = {"namespaces": [BOOKS, NOTES], "filters": Filters(), "limit": 50, **asked}
        found = self.use.vectors_in(self.use.spaces.base, tenant_id).nearest(question, **values)
        return [chunk_id for chunk_id, _ in found]

    def recall_at_10(self, tenant_id: TenantId, **asked: object) -> float:
        shares = []
        for question in self.questions:
            truth = set(self.exact(tenant_id, question, **asked)[:10])
            found = [chunk_id for chunk_id, _ in self.search(tenant_id, question, **asked).hits[:10]]
            shares.append(len(truth.intersection(found)) / len(truth))
        return sum(shares) / len(shares)


def noted(use: Resources, tenant_id: TenantId) -> list[Row]:
    """Return the rows of a tenant's indexes, in the order of their ranges."""
    with use.postgres.connect() as connection:
        statement = text(
            "SELECT * FROM vector_indexes WHERE tenant_id = :tenant AND state <> 'wanted' ORDER BY first_seq, end_seq"
        )
        return list(connection.execute(statement, {"tenant": tenant_id}))
