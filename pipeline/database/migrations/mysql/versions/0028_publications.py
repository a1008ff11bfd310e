"""Add the publication log."""

from alembic import op

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    """Make the table; the log begins with the next change of each namespace."""
    op.execute(
        """
        CREATE TABLE publications (
            tenant_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
            namespace VARCHAR(64) NOT NULL,
            revision BIGINT NOT NULL,
            document_id VARCHAR(64) NOT NULL,
            revised_at DATETIME(6) NOT NULL,
            PRIMARY KEY (tenant_id, namespace, revision, document_id),
            KEY publications_by_age (tenant_id, revised_at)
        ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin
        """
    )


def downgrade() -> None:
    """Drop the log: indexes made from it are built anew."""
    op.execute("DROP TABLE publications")
