"""Note by which rules the terms of a generation were made."""

from alembic import op

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    """Take what is there for made by version 1: upkeep goes through it once."""
    op.execute(
        "ALTER TABLE generations ADD COLUMN terms_version SMALLINT NOT NULL DEFAULT 1,"
        " ADD KEY generations_by_terms (terms_version, tenant_id)"
    )


def downgrade() -> None:
    """Forget it; the terms stay as they are."""
    op.execute("ALTER TABLE generations DROP KEY generations_by_terms, DROP COLUMN terms_version")
