"""Forget HNSW indexes of whole tenants, which upkeep then drops.

Large tenants are compared row by row until upkeep has sealed their first range.
"""

from alembic import op

revision = "0009"
down_revision = "0007"


def upgrade() -> None:
    """Delete the records of indexes without a range."""
    op.execute("DELETE FROM vector_indexes WHERE first_seq IS NULL OR end_seq IS NULL")


def downgrade() -> None:
    """Leave the records as they are: nothing needs those that were deleted."""
