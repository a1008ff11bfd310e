"""The kinds of statements of a migration, and what they cost on tables of a given size."""

from __future__ import annotations

import pytest

from pipeline.maintenance.plan_migrations import TableSize, Waits, Work, estimate

SIZES = {
    "chunks": TableSize(rows=100_000, bytes=240_000_000),
    "jobs": TableSize(rows=50, bytes=16_384),
    "chunk_embeddings": TableSize(rows=100_000, bytes=80_000_000),
}


class DescribeAnEstimate:
    @pytest.mark.parametrize(
        ("statement", "work", "waits"),
        [
            ("ALTER TABLE chunks ADD COLUMN note VARCHAR(9) NOT NULL DEFAULT ''", Work.CATALOGUE, Waits.NOBODY),
            ("ALTER TABLE chunks ADD note VARCHAR(9), ADD KEY noted (tenant_id, note)", Work.INDEX, Waits.NOBODY),
            ("CREATE INDEX noted ON chunks (tenant_id, page)", Work.INDEX, Waits.NOBODY),
            ("CREATE UNIQUE INDEX noted ON `chunks` (tenant_id, page)", Work.INDEX, Waits.NOBODY),
            ("ALTER TABLE chunks ADD FULLTEXT KEY words (text)", Work.TEXT_INDEX, Waits.WRITERS),
            ("ALTER TABLE chunks MODIFY page BIGINT UNSIGNED NULL", Work.REBUILD, Waits.WRITERS),
            ("ALTER TABLE chunks DROP COLUMN page", Work.CATALOGUE, Waits.NOBODY),
            ("UPDATE chunks\nSET page = 1", Work.CHANGE, Waits.ROWS),
            ("CREATE TABLE added (id INT, KEY k (id))", Work.CATALOGUE, Waits.NOBODY),
            ("CREATE INDEX k ON added (id)", Work.CATALOGUE, Waits.NOBODY),
            ("OPTIMIZE TABLE chunks", Work.UNKNOWN, Waits.EVERYBODY),
        ],
    )
    def it_tells_what_mysql_does(self, statement, work, waits):
        found = estimate("mysql", statement, SIZES)
        assert (found.work, found.waits) == (work, waits)

    @pytest.mark.parametrize(
        ("statement", "work", "waits"),
        [
            ("ALTER TABLE chunk_embeddings ADD COLUMN note text NOT NULL DEFAULT ''", Work.CATALOGUE, Waits.NOBODY),
            (
                "ALTER TABLE chunk_embeddings ADD COLUMN id uuid DEFAULT gen_random_uuid()",
                Work.REBUILD,
                Waits.EVERYBODY,
            ),
            ("ALTER TABLE chunk_embeddings ALTER COLUMN generation TYPE bigint", Work.REBUILD, Waits.EVERYBODY),
            ("ALTER TABLE chunk_embeddings ALTER COLUMN type SET NOT NULL", Work.SCAN, Waits.EVERYBODY),
            ("ALTER TABLE chunk_embeddings ADD CONSTRAINT c CHECK (seq > 0)", Work.SCAN, Waits.EVERYBODY),
            ("ALTER TABLE chunk_embeddings ADD CONSTRAINT c CHECK (seq > 0) NOT VALID", Work.CATALOGUE, Waits.NOBODY),
            ("ALTER TABLE chunk_embeddings VALIDATE CONSTRAINT c", Work.SCAN, Waits.NOBODY),
            ("CREATE INDEX by_type ON chunk_embeddings (tenant_id, type)", Work.INDEX, Waits.WRITERS),
            ("CREATE INDEX CONCURRENTLY by_type ON chunk_embeddings (type)", Work.CONCURRENT_INDEX, Waits.NOBODY),
            ("CREATE INDEX near ON chunk_embeddings USING hnsw (embedding)", Work.VECTOR_INDEX, Waits.WRITERS),
            ("COMMENT ON COLUMN chunk_embeddings.type IS 'x'", Work.CATALOGUE, Waits.NOBODY),
            ("DELETE FROM chunk_embeddings WHERE type IS NULL", Work.CHANGE, Waits.ROWS),
            ("VACUUM FULL", Work.UNKNOWN, Waits.EVERYBODY),
        ],
    )
    def it_tells_what_postgres_does(self, statement, work, waits):
        found = estimate("postgres", statement, SIZES)
        assert (found.work, found.waits) == (work, waits)

    def it_grows_with_the_table(self):
        found = estimate("mysql", "CREATE INDEX noted ON chunks (tenant_id, page)", SIZES)
        assert found.seconds_at_size == pytest.approx(found.seconds * 10)
        assert str(found).startswith("index of chunks, about ")

    def it_takes_usual_chunks_where_there_are_few(self):
        few = {"chunks": TableSize(rows=3, bytes=16_384)}
        found = estimate("mysql", "CREATE INDEX noted ON chunks (tenant_id, page)", few)
        assert found.seconds < 1 < found.seconds_at_size
        assert "under a second (with 1,000,000 chunks" in str(found)

    def it_calls_a_change_of_the_catalogue_a_matter_of_moments(self):
        assert str(estimate("mysql", "ALTER TABLE chunks ADD COLUMN note INT NULL", SIZES)) == "moments"
        assert str(estimate("mysql", "OPTIMIZE TABLE chunks", SIZES)) == "not estimated"
