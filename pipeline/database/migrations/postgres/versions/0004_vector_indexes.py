"""Notes on the approximate indexes of tenants that outgrew exact search (`pipeline.semantic.vector_index_store`).

The indexes themselves are made and dropped while the installation runs, one for each such tenant and table of vectors.
"""

from alembic import op
from sqlalchemy import text

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the table; nobody has an index yet."""
    op.execute(
        """
        CREATE TABLE vector_indexes (
            tenant_id text NOT NULL,
            table_name text NOT NULL,
            index_name text NOT NULL,
            state text NOT NULL CHECK (state IN ('wanted', 'building', 'ready', 'retiring')),
            chunks bigint NOT NULL,
            changed_at timestamptz NOT NULL DEFAULT now(),
            build_s real,
            PRIMARY KEY (tenant_id, table_name, index_name)
        )
        """
    )


def downgrade() -> None:
    """Drop the table and every index it speaks of: the code before this revision knows neither."""
    names = op.get_bind().execute(
        text(
            "SELECT c.relname FROM pg_class c WHERE c.relkind = 'i' AND c.relnamespace = current_schema()::regnamespace"
            " AND c.relname ~ '^chunk_embeddings(_[0-9]+)?_ann_'"
        )
    )
    for name in names.scalars():
        op.execute(f'DROP INDEX "{name}"')
    op.execute("DROP TABLE vector_indexes")
