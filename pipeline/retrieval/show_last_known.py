"""The texts of a query's hits: from MySQL, or while it does not answer from this host's keyword index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial

from pipeline.channels.local_indexes import Standing
from pipeline.database.unit_of_work import reading
from pipeline.documents.chunk_store import Chunks, StoredChunk
from pipeline.errors import Unavailable
from pipeline.query.request import Query
from pipeline.records import ChunkId
from pipeline.resources import Resources
from pipeline.retrieval.journal import Journal
from pipeline.retrieval.read_texts import read_in_time


class ShownChunks:
    """Reads the shown chunks of a query. After MySQL failed once it is not asked again for this query."""

    def __init__(self, query: Query, since: datetime, use: Resources) -> None:
        self._query = query
        self._since = since
        self._use = use
        self._standing: Standing | None = None
        self._missing = 0
        self._withheld = 0

    def read(self, chunk_ids: Sequence[ChunkId]) -> Mapping[ChunkId, StoredChunk]:
        """Return those of these chunks that are shown, as of now or of the index's revision. Raises Unavailable where the
        index has none of the query's namespaces."""
        if self._standing is None:
            try:
                return read_in_time(self._query, self._use, partial(self._of_mysql, chunk_ids))
            except Unavailable:
                if (indexes := self._use.local_indexes) is None:
                    raise
                self._standing = indexes.last_known(self._query.tenant_id, self._query.namespaces_read)
                if self._standing is None:
                    raise
        if not self._query.rules_known:
            self._withheld += len(chunk_ids)
            return {}
        found = [
            entry for entry in self._standing.view.chunks(chunk_ids) if entry.row.namespace in self._standing.states
        ]
        self._missing += len(chunk_ids) - len(found)
        return {entry.row.chunk_id: entry.stored() for entry in found}

    def note(self, journal: Journal) -> None:
        """Name what the index could not show, and how old it is."""
        if self._standing is not None:
            journal.answered_from_index(self._standing.age_s(datetime.now(UTC)))
        if self._missing:
            detail = f"{self._missing} passages are not in this host's keyword index and were left out"
            journal.lost("hydrate", "not_in_index", detail)
        if self._withheld:
            detail = f"{self._withheld} passages were withheld: the tenant's rules for personal data could not be read"
            journal.lost("hydrate", "rules_unknown", detail)

    def _of_mysql(self, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, StoredChunk]:
        query = self._query
        with reading(self._use.mysql) as connection:
            chunks = Chunks(connection, query.tenant_id)
            return chunks.hydrate(chunk_ids, namespaces=query.namespaces_read, since=self._since)
