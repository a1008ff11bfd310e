"""Changes of the term statistics that wait to be added together."""

from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """One row for each large batch; a job's end adds them up."""
    op.execute(
        "CREATE TABLE term_changes ("
        " tenant_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,"
        " namespace VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,"
        " change_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,"
        " changes MEDIUMBLOB NOT NULL,"
        " created_at DATETIME(6) NOT NULL,"
        " PRIMARY KEY (tenant_id, namespace, change_id)"
        ") ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    )


def downgrade() -> None:
    """What waits is lost with the table: `chordwise verify --repair` counts again."""
    op.execute("DROP TABLE term_changes")
