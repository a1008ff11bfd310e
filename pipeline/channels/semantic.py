"""Recall by meaning: the chunks whose vectors are nearest to the query's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pipeline.channels.port import Recalled
from pipeline.channels.recent import Recent
from pipeline.core.query import Query
from pipeline.models.port import Embedder
from pipeline.records import ChannelName, ChunkId, TenantId
from pipeline.stores.vectors import Vectors


@dataclass(frozen=True, slots=True)
class SemanticChannel:
    """The vectors in PostgreSQL, and the model that made them. ``ask`` gives the vector of a tenant's text within so many
    seconds; without it the model is asked directly."""

    embedder: Embedder
    vectors: Callable[[TenantId], Vectors]
    ask: Callable[[TenantId, str, float], NDArray[np.float32]] | None = None
    name: ChannelName = ChannelName.SEMANTIC
    _known: Recent[NDArray[np.float32]] = field(default_factory=lambda: Recent(1024))

    def recall(self, query: Query) -> Recalled:
        """The chunks nearest to the query; similarity is computed now and never stored."""
        nearest = self.vectors(query.tenant_id).nearest(
            self._vector(query), namespaces=query.namespaces, filters=query.filters, limit=query.pool
        )
        return Recalled(
            chunk_ids=tuple(chunk_id for chunk_id, _ in nearest),
            scores=tuple(score for _, score in nearest),
            upper_bound=1.0,
        )

    def score(self, query: Query, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, float]:
        """The similarity of chunks that another channel found."""
        return self.vectors(query.tenant_id).scores(self._vector(query), chunk_ids) if chunk_ids else {}

    def _vector(self, query: Query) -> NDArray[np.float32]:
        """The query's vector; a model service is asked once, though the channel is asked twice."""

        def embed() -> NDArray[np.float32]:
            seconds = query.timeout_ms / 1000
            if self.ask is not None:
                return self.ask(query.tenant_id, query.query_text, seconds)
            vector: NDArray[np.float32] = self.embedder.embed([query.query_text], timeout_s=seconds)[0]
            return vector

        return self._known.get((query.tenant_id, self.embedder.model, query.query_text), embed)
