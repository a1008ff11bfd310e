"""Whose turn it is, paused jobs, why an item failed for good, and what a tenant may store."""

from alembic import op

revision = "0002"
down_revision = "0001"

_WORD = "CHARACTER SET ascii COLLATE ascii_bin"


def upgrade() -> None:
    """Add columns and the table of turns; items that failed before get their reason from what was noted then."""
    op.execute(
        f"CREATE TABLE ingest_turns (tenant_id VARCHAR(64) {_WORD} NOT NULL, served_at DATETIME(6) NOT NULL,"
        " PRIMARY KEY (tenant_id)) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    )
    op.execute(
        "ALTER TABLE jobs ADD COLUMN paused_at DATETIME(6) NULL, ADD COLUMN served_at DATETIME(6) NULL,"
        " ADD KEY jobs_unfinished (finished_at, tenant_id, job_id)"
    )
    # Work is looked for in jobs that are neither finished nor paused, so the key names the job before the time.
    op.execute(
        f"ALTER TABLE job_items ADD COLUMN failure VARCHAR(16) {_WORD} NULL, ADD COLUMN dead_at DATETIME(6) NULL,"
        " DROP KEY items_due, ADD KEY items_due (tenant_id, job_id, state, next_attempt_at),"
        " ADD KEY items_dead (tenant_id, dead_at, job_id, ordinal)"
    )
    op.execute(
        "ALTER TABLE tenants ADD COLUMN quota_documents BIGINT UNSIGNED NULL,"
        " ADD COLUMN quota_chunks BIGINT UNSIGNED NULL, ADD COLUMN quota_queued BIGINT UNSIGNED NULL"
    )
    op.execute(
        "UPDATE job_items SET dead_at = updated_at,"
        " failure = IF(error_detail LIKE 'gave up after %', 'gave_up', 'rejected')"
        " WHERE state = 'failed' AND generation IS NOT NULL"
    )


def downgrade() -> None:
    """Forget all of it."""
    op.execute("ALTER TABLE tenants DROP COLUMN quota_documents, DROP COLUMN quota_chunks, DROP COLUMN quota_queued")
    op.execute(
        "ALTER TABLE job_items DROP KEY items_dead, DROP KEY items_due,"
        " ADD KEY items_due (tenant_id, state, next_attempt_at), DROP COLUMN failure, DROP COLUMN dead_at"
    )
    op.execute("ALTER TABLE jobs DROP KEY jobs_unfinished, DROP COLUMN paused_at, DROP COLUMN served_at")
    op.execute("DROP TABLE ingest_turns")
