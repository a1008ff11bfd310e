"""Drop the fences of tenants' writes, which moves of tenants between servers needed."""

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Drop the table."""
    op.execute("DROP TABLE write_fences")


def downgrade() -> None:
    """Create the table."""
    op.execute("CREATE TABLE write_fences (tenant_id text PRIMARY KEY, is_closed boolean NOT NULL)")
