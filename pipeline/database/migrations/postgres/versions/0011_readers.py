"""Add the readers of documents to the vectors of every embedding space. NULL: everyone may read the document."""

from alembic import op

revision = "0011"
down_revision = "0010"

_TABLES = (
    "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
    " AND table_name ~ '^chunk_embeddings(_[0-9]+)?$' ORDER BY table_name"
)


def upgrade() -> None:
    """Add the column, which rewrites no row."""
    for table in op.get_bind().exec_driver_sql(_TABLES).scalars().all():
        op.execute(f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS readers text[]")


def downgrade() -> None:
    """Drop the column; every key then sees every document of its tenant."""
    for table in op.get_bind().exec_driver_sql(_TABLES).scalars().all():
        op.execute(f"ALTER TABLE {table} DROP COLUMN IF EXISTS readers")
