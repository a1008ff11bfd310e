"""When a key was used last and what took its place, and tenants that are shut out for a while."""

from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    """No key is known to have been used, and no tenant is shut out."""
    op.execute(
        "ALTER TABLE api_keys ADD COLUMN last_used_at DATETIME(6) NULL,"
        " ADD COLUMN replaced_by CHAR(16) CHARACTER SET ascii COLLATE ascii_bin NULL"
    )
    op.execute("ALTER TABLE tenants ADD COLUMN disabled_at DATETIME(6) NULL")


def downgrade() -> None:
    """Whoever was shut out is let in again."""
    op.execute("ALTER TABLE tenants DROP COLUMN disabled_at")
    op.execute("ALTER TABLE api_keys DROP COLUMN replaced_by, DROP COLUMN last_used_at")
