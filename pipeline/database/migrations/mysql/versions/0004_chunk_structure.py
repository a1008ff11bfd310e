"""What a chunk is part of, what its segment says of it, and the parents, which are read and never searched."""

from alembic import op

revision = "0004"
down_revision = "0003"

_ID = "CHAR(36) CHARACTER SET ascii COLLATE ascii_bin"
_NAME = "VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"


def upgrade() -> None:
    """Chunks that are there were cut without parents: each is one itself, and its place is its ordinal."""
    op.execute(
        "ALTER TABLE chunks"
        " ADD COLUMN chunk_type VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'parent',"
        f" ADD COLUMN parent_id {_ID} NULL, ADD COLUMN chunk_index INT UNSIGNED NOT NULL DEFAULT 0,"
        " ADD COLUMN story_time BIGINT NULL, ADD COLUMN segment JSON NULL"
    )
    op.execute("UPDATE chunks SET chunk_index = ordinal")
    op.execute(
        "CREATE TABLE parent_chunks ("
        " tenant_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,"
        f" namespace {_NAME}, document_id {_NAME}, generation INT UNSIGNED NOT NULL, ordinal INT UNSIGNED NOT NULL,"
        f" chunk_id {_ID} NOT NULL, text MEDIUMTEXT NOT NULL, heading_path JSON NOT NULL, page INT UNSIGNED NULL,"
        " start_offset INT UNSIGNED NOT NULL, end_offset INT UNSIGNED NOT NULL, token_count INT UNSIGNED NOT NULL,"
        " version INT UNSIGNED NOT NULL DEFAULT 1, created_at DATETIME(6) NOT NULL, edited_at DATETIME(6) NULL,"
        " PRIMARY KEY (tenant_id, namespace, document_id, generation, ordinal),"
        " UNIQUE KEY parent_chunks_by_id (tenant_id, chunk_id)"
        ") ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    )
    op.execute("ALTER TABLE alignment_state ADD COLUMN document_vectors BIGINT UNSIGNED NOT NULL DEFAULT 0")


def downgrade() -> None:
    """Children stay, and forget what they are part of."""
    op.execute("ALTER TABLE alignment_state DROP COLUMN document_vectors")
    op.execute("DROP TABLE parent_chunks")
    op.execute(
        "ALTER TABLE chunks DROP COLUMN chunk_type, DROP COLUMN parent_id, DROP COLUMN chunk_index,"
        " DROP COLUMN story_time, DROP COLUMN segment"
    )
