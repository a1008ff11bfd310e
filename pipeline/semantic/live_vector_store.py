"""One tenant's vectors while an installation may have two tables of them: read one, keep both up to date."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Engine

from pipeline.documents.alignment_store import AlignedVectors
from pipeline.embedding.distance import Distance
from pipeline.errors import VectorsMissing
from pipeline.records import Chunk, ChunkId, DocumentFields, Generation, LiveSpaces, TenantId
from pipeline.semantic.vector_store import Vectors

_CONFIRMED_FOR_S = 5.0  # a confirmation holds this long where vectors are only added


class LiveVectors(Vectors):
    """The vectors of the live spaces. Reads use the active space, deletions every live one, and writes that of the
    model that made the vectors, so that they never end up among another model's."""

    def __init__(
        self,
        postgres: Engine,
        tenant_id: TenantId,
        *,
        distance: Distance,
        spaces: LiveSpaces,
        confirm: Callable[..., object],
    ) -> None:
        """``confirm``: `Installation.confirm`, called before anything is written or deleted."""
        super().__init__(postgres, tenant_id, distance=distance, table=spaces.active.table)
        self.spaces = spaces
        self._confirm = confirm

    def upsert(
        self,
        chunks: Sequence[Chunk],
        vectors: NDArray[np.float32],
        *,
        fields: Mapping[Generation, DocumentFields],
        model: str,
    ) -> None:
        """Store vectors in the space of ``model``. Raises VectorsMissing if none is live, WrongInstallation."""
        if not chunks:
            return
        space = self.spaces.of(model, vectors.shape[1])
        if space is None:
            raise VectorsMissing(f"no live embedding space takes vectors of {model} with {vectors.shape[1]} numbers")
        self._confirm(within_s=_CONFIRMED_FOR_S)
        self._of(space.table).upsert(chunks, vectors, fields=fields, model=model)

    def drop(self, generations: Sequence[Generation]) -> None:
        """Delete the vectors of exactly these generations in every live space. Raises WrongInstallation."""
        if generations:
            self._confirm()
        for space in self.spaces.every:
            self._of(space.table).drop(generations)

    def forget(self, chunk_ids: Sequence[ChunkId]) -> None:
        """Delete exactly these vectors in every live space. Raises WrongInstallation."""
        if chunk_ids:
            self._confirm()
        for space in self.spaces.every:
            AlignedVectors(self._postgres, self._tenant_id, table=space.table).delete(chunk_ids)

    def complete(
        self, expected: Mapping[Generation, int], counts: Mapping[Generation, int]
    ) -> dict[int, set[Generation]]:
        """Return by space which generations have as many vectors as expected. ``counts``: those in the active space."""
        by_space = {self.spaces.active.number: counts}
        if self.spaces.standby is not None:
            by_space[self.spaces.standby.number] = self._of(self.spaces.standby.table).counts(list(expected))
        return {
            number: {g for g, count in expected.items() if counts_in_space[g] == count}
            for number, counts_in_space in by_space.items()
        }

    def _of(self, table: str) -> Vectors:
        return Vectors(self._postgres, self._tenant_id, distance=self._distance, table=table)
