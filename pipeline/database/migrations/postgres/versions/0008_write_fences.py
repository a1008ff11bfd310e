"""Add the fences of tenants' writes to the vector store."""

from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Create the table."""
    op.execute("CREATE TABLE write_fences (tenant_id text PRIMARY KEY, is_closed boolean NOT NULL)")


def downgrade() -> None:
    """Drop the table."""
    op.execute("DROP TABLE write_fences")
