"""Documents whose bytes are yet to be fetched, and jobs that go before others of their tenant."""

from alembic import op

revision = "0008"
down_revision = "0007"

_WORD = "CHARACTER SET ascii COLLATE ascii_bin"


def upgrade() -> None:
    """Add columns. Jobs of before count as bulk, and everything of before has its bytes."""
    op.execute("ALTER TABLE payloads ADD COLUMN to_fetch TINYINT(1) NOT NULL DEFAULT 0")
    op.execute(f"ALTER TABLE jobs ADD COLUMN priority VARCHAR(16) {_WORD} NOT NULL DEFAULT 'bulk'")
    op.execute("ALTER TABLE ingest_turns ADD COLUMN interactive_in_a_row INT UNSIGNED NOT NULL DEFAULT 0")


def downgrade() -> None:
    """Forget them. What is not fetched yet ends as an empty document."""
    op.execute("ALTER TABLE ingest_turns DROP COLUMN interactive_in_a_row")
    op.execute("ALTER TABLE jobs DROP COLUMN priority")
    op.execute("ALTER TABLE payloads DROP COLUMN to_fetch")
