"""Note how many lists of an index find the nearest hundred, beside those that find the nearest ten.

Until an index is measured again, the one number that it had stands for both: it was chosen so that both were found.
"""

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the column."""
    op.execute("ALTER TABLE vector_indexes ADD COLUMN deep_probes integer")
    op.execute("UPDATE vector_indexes SET deep_probes = probes")


def downgrade() -> None:
    """Drop it; the larger number goes on to stand for both."""
    op.execute("UPDATE vector_indexes SET probes = deep_probes")
    op.execute("ALTER TABLE vector_indexes DROP COLUMN deep_probes")
