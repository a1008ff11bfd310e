"""Drop the fences of tenants' writes, and forget HNSW indexes of whole tenants, which upkeep then drops.

Both tables are small. Large tenants are compared row by row until upkeep has sealed their first range.
"""

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Drop the table, and delete the records of indexes without a range."""
    op.execute("DROP TABLE write_fences")
    op.execute("DELETE FROM vector_indexes WHERE first_seq IS NULL OR end_seq IS NULL")


def downgrade() -> None:
    """Create the table."""
    op.execute("CREATE TABLE write_fences (tenant_id text PRIMARY KEY, is_closed boolean NOT NULL)")
