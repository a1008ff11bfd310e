"""Add the encoding that each document was read in, and the page that each chunk ends on."""

from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    """Add empty columns. Earlier generations keep no encoding, and their chunks end on the page they begin on."""
    op.execute("ALTER TABLE generations ADD COLUMN encoding JSON NULL")
    op.execute("ALTER TABLE chunks ADD COLUMN page_end INT UNSIGNED NULL")
    op.execute("ALTER TABLE parent_chunks ADD COLUMN page_end INT UNSIGNED NULL")


def downgrade() -> None:
    """Drop the columns. The next upload of a document brings their values back."""
    op.execute("ALTER TABLE generations DROP COLUMN encoding")
    op.execute("ALTER TABLE chunks DROP COLUMN page_end")
    op.execute("ALTER TABLE parent_chunks DROP COLUMN page_end")
