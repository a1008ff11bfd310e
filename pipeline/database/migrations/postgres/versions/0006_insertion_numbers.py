"""Number vectors in the order of insertion, and note the range, the parameters and the measured recall of each index.

No table is rewritten: rows that are there already get the number 0, which costs nothing, and only the new btree is
built (two seconds for a million rows, during which nobody writes). The sequence belongs to no table: all tables of
vectors draw from it, and any of them may be dropped.
"""

from alembic import op
from sqlalchemy import text

revision = "0006"
down_revision = "0005"

_TABLES = text(
    "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
    " AND relname ~ '^chunk_embeddings(_[0-9]+)?$' ORDER BY relname"
)


def upgrade() -> None:
    """Add the columns and the btree to every table of vectors."""
    op.execute("CREATE SEQUENCE IF NOT EXISTS chunk_embeddings_seq")
    # A role that may insert rows must be able to number them, also where it was granted tables alone.
    op.execute("GRANT USAGE ON SEQUENCE chunk_embeddings_seq TO PUBLIC")
    for table in op.get_bind().execute(_TABLES).scalars().all():
        op.execute(f"ALTER TABLE {table} ADD COLUMN seq bigint NOT NULL DEFAULT 0")
        op.execute(f"ALTER TABLE {table} ALTER COLUMN seq SET DEFAULT nextval('chunk_embeddings_seq')")
        # Of a collation of its own, so that only statements which name that one use it: it holds all of a tenant's
        # namespaces, and a search of one of them must not take it.
        op.execute(f'CREATE INDEX {table}_by_seq ON {table} (tenant_id COLLATE "C", seq)')
    op.execute(
        """
        ALTER TABLE vector_indexes
            ADD COLUMN first_seq bigint,
            ADD COLUMN end_seq bigint,
            ADD COLUMN built_rows bigint,
            ADD COLUMN lists integer,
            ADD COLUMN probes integer,
            ADD COLUMN recall real,
            ADD COLUMN questions integer,
            ADD COLUMN measured_at timestamptz
        """
    )


def downgrade() -> None:
    """Drop the indexes of ranges, which the code before this revision does not know, and the columns."""
    bind = op.get_bind()
    for name in bind.execute(text("SELECT index_name FROM vector_indexes WHERE first_seq IS NOT NULL")).scalars().all():
        op.execute(f'DROP INDEX IF EXISTS "{name}"')
    op.execute("DELETE FROM vector_indexes WHERE first_seq IS NOT NULL")
    op.execute(
        "ALTER TABLE vector_indexes DROP COLUMN first_seq, DROP COLUMN end_seq, DROP COLUMN built_rows, DROP COLUMN lists,"
        " DROP COLUMN probes, DROP COLUMN recall, DROP COLUMN questions, DROP COLUMN measured_at"
    )
    for table in bind.execute(_TABLES).scalars().all():
        op.execute(f"ALTER TABLE {table} DROP COLUMN seq")
    op.execute("DROP SEQUENCE chunk_embeddings_seq")
