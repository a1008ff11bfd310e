"""Add large bodies of computations that a caller of the gateway waits for."""

from alembic import op

revision = "0023"
down_revision = "0022"

_ASCII = "CHARACTER SET ascii COLLATE ascii_bin"


def upgrade() -> None:
    """Create the empty table."""
    op.execute(
        f"""CREATE TABLE computation_bodies (
        tenant_id VARCHAR(64) {_ASCII} NOT NULL,
        computation_id CHAR(36) {_ASCII} NOT NULL,
        piece INT UNSIGNED NOT NULL,
        body MEDIUMBLOB NOT NULL,
        expires_at DATETIME(6) NOT NULL,
        PRIMARY KEY (tenant_id, computation_id, piece),
        KEY computation_bodies_expiring (expires_at, tenant_id)
        ) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"""
    )


def downgrade() -> None:
    """Drop the table. Callers that wait get an error and have to ask again."""
    op.execute("DROP TABLE computation_bodies")
