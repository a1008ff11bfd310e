"""Add the id of the installation that this database belongs to."""

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Create the table without an id: `pipeline.database.installation` writes it once both stores are migrated."""
    op.execute(
        """
        CREATE TABLE installation (
            id smallint PRIMARY KEY CHECK (id = 1),
            installation_id text NOT NULL,
            created_at timestamptz NOT NULL DEFAULT now()
        )
        """
    )


def downgrade() -> None:
    """Drop the id of the installation."""
    op.execute("DROP TABLE installation")
