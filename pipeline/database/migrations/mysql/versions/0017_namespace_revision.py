"""How often what a namespace shows has changed, so that a kept answer is known to be old."""

from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Everything that is there begins at 0."""
    op.execute(
        "ALTER TABLE namespaces ADD COLUMN revision BIGINT NOT NULL DEFAULT 0, ADD COLUMN revised_at DATETIME(6) NULL"
    )


def downgrade() -> None:
    """No answer is kept without it."""
    op.execute("ALTER TABLE namespaces DROP COLUMN revision, DROP COLUMN revised_at")
