"""The vectors that this process holds in memory; see `channels.copies`.

Reading them all for a query takes a third of the time that PostgreSQL takes to look at a part of them through a graph, and
misses nothing, which a graph does where questions are unlike the texts that it was built of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Unpack

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Engine

from pipeline.channels.copies import Copies, How, Key, Read
from pipeline.core.vector_table import Distance, VectorTable
from pipeline.records import Namespace, TenantId
from pipeline.stores.chunks import Chunks
from pipeline.stores.namespaces import Namespaces
from pipeline.stores.vectors import Vectors
from pipeline.stores.work import reading

_BYTES_PER_ID = 36
_ROWS_AT_ONCE = 2_000

Matrix = NDArray[np.float32]


class ResidentVectors:
    """Copies of at most ``most_bytes`` together, by tenant, namespace and table. For the rest see `Copies`."""

    def __init__(
        self,
        mysql: Engine,
        vectors: Callable[[TenantId, str], Vectors],
        *,
        distance: Distance,
        most_bytes: int,
        **how: Unpack[How],
    ) -> None:
        """``vectors``: those of a tenant in a table."""
        self._mysql = mysql
        self._vectors = vectors
        self._distance = distance
        self._most_bytes = most_bytes
        self._copies = Copies[VectorTable]("vectors", self._read, most_bytes=most_bytes, **how)

    @property
    def byte_count(self) -> int:
        """What all copies take."""
        return self._copies.byte_count

    def of(
        self, tenant_id: TenantId, namespaces: Sequence[Namespace], table: str, stamps: Mapping[Namespace, str]
    ) -> list[VectorTable] | None:
        """A copy of each namespace at its stamp, in order; None if one is missing."""
        return self._copies.of({(tenant_id, name, table): stamps.get(name) for name in namespaces})

    def note(
        self, tenant_id: TenantId, namespaces: Sequence[Namespace], table: str, stamps: Mapping[Namespace, str]
    ) -> None:
        """These namespaces are being asked about without a copy, and showed this a moment ago."""
        self._copies.note({(tenant_id, name, table): (stamps[name], 0.0) for name in namespaces if name in stamps})

    def _read(self, key: Key) -> Read[VectorTable]:
        """The vectors of what the namespace shows at a stamp.

        A chunk is shown only when its vector is there, and a vector goes only when its chunk is shown no more; so what was
        shown at one stamp before and after is there in between. Where it is not, the stores have drifted apart, and
        nothing is held before they are mended, which moves the stamp.
        """
        tenant_id, namespace, table = key
        with reading(self._mysql) as connection:
            namespaces = Namespaces(connection, tenant_id)
            before = namespaces.revisions([namespace])
            shown = Chunks(connection, tenant_id).shown_ids(namespace)
            vectors = self._vectors(tenant_id, table)
            ids: list[bytes] = []
            blocks: list[Matrix] = []
            for some, rows in _among(shown, vectors.pages(namespace, at_once=_ROWS_AT_ONCE)):
                ids += some
                blocks.append(rows)
                if len(shown) * (rows.itemsize * rows.shape[1] + _BYTES_PER_ID) > self._most_bytes:
                    return Read("too_large")
            after = namespaces.revisions([namespace])
        if not before or before != after:
            return Read("changed")
        if len(ids) < len(shown):
            return Read("incomplete")
        everything = np.concatenate(blocks) if blocks else np.zeros((0, 1), np.float32)
        return Read("loaded", before[namespace].stamp, VectorTable.of(ids, everything, distance=self._distance))


def _among(shown: frozenset[str], pages: Iterator[tuple[list[str], Matrix]]) -> Iterator[tuple[list[bytes], Matrix]]:
    """Those of the rows that are of shown chunks."""
    for chunk_ids, rows in pages:
        kept = [place for place, chunk_id in enumerate(chunk_ids) if chunk_id in shown]
        yield [chunk_ids[place].encode() for place in kept], rows[kept]
