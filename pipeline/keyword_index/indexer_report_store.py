"""The reports of each host's indexer in Redis, for /readyz, the doctor and the metrics."""

from dataclasses import fields
from typing import Final

import redis

from pipeline.database.expiring_record_store import ExpiringRecords
from pipeline.keyword_index.indexer_facts import IndexerFacts

EVERY_S: Final = 2.0
_EXPIRES_S: Final = 8.0
_FIELDS: Final = frozenset(field.name for field in fields(IndexerFacts))


class IndexerReports:
    """The reports of an installation's indexers. Every method raises StoreUnavailable without Redis."""

    def __init__(self, client: redis.Redis) -> None:
        self._records = ExpiringRecords(
            client, registry="chordwise:indexers", key="chordwise:indexer:{}", expires_s=_EXPIRES_S
        )

    def write(self, facts: IndexerFacts) -> None:
        """Write the report of a host's indexer."""
        self._records.write(facts.host, facts)

    def withdraw(self, host: str) -> None:
        """Delete the report of a host's indexer when it ends."""
        self._records.withdraw(host)

    def all(self) -> list[IndexerFacts]:
        """Return the indexers that reported within the last seconds, by host."""
        records = self._records.all()  # a newer indexer may write more fields
        return [
            IndexerFacts(**{name: value for name, value in record.items() if name in _FIELDS}) for record in records
        ]
