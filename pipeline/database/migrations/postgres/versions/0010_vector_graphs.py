"""Record which vector indexes are graphs, and the cost of a search through each.

The table is small. Indexes that exist are lists and keep their records.
"""

from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add the columns."""
    op.execute("ALTER TABLE vector_indexes ADD COLUMN graph text, ADD COLUMN search_ms real, ADD COLUMN graph_ms real")


def downgrade() -> None:
    """Forget the graphs, which upkeep then drops, and drop the columns."""
    op.execute("DELETE FROM vector_indexes WHERE graph IS NOT NULL")
    op.execute("ALTER TABLE vector_indexes DROP COLUMN graph, DROP COLUMN search_ms, DROP COLUMN graph_ms")
