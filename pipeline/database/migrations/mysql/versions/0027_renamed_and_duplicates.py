"""Add the id that a renamed document was sent with and the mark of reworded chunks, and find documents by their bytes."""

from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    """Take every chunk that was changed by hand for a reworded one."""
    op.execute(
        "ALTER TABLE job_items ADD COLUMN requested_id VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL"
    )
    op.execute("ALTER TABLE chunks ADD COLUMN reworded TINYINT NOT NULL DEFAULT 0")
    op.execute("UPDATE chunks SET reworded = 1 WHERE edited_at IS NOT NULL")
    op.execute("ALTER TABLE generations ADD KEY generations_by_content (tenant_id, namespace, content_hash)")


def downgrade() -> None:
    """Renamed documents keep their ids."""
    op.execute("ALTER TABLE generations DROP KEY generations_by_content")
    op.execute("ALTER TABLE chunks DROP COLUMN reworded")
    op.execute("ALTER TABLE job_items DROP COLUMN requested_id")
