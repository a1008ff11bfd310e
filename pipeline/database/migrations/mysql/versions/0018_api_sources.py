"""Business APIs that queries may ask: how each is called, and the sealed values of its headers."""

from alembic import op

revision = "0018"
down_revision = "0017"

_ASCII = "CHARACTER SET ascii COLLATE ascii_bin"


def upgrade() -> None:
    """No tenant has one yet."""
    op.execute(
        f"""CREATE TABLE api_sources (
        tenant_id VARCHAR(64) {_ASCII} NOT NULL,
        name VARCHAR(64) {_ASCII} NOT NULL,
        source JSON NOT NULL,
        secrets BLOB NULL,
        created_at DATETIME(6) NOT NULL,
        updated_at DATETIME(6) NOT NULL,
        PRIMARY KEY (tenant_id, name)
        ) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"""
    )


def downgrade() -> None:
    """The sources have to be described again."""
    op.execute("DROP TABLE api_sources")
