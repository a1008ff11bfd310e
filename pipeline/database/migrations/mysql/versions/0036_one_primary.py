"""Name the server that takes the writes in the row of the installation, so that a second one is noticed."""

from alembic import op
from sqlalchemy import inspect

revision = "0036"
down_revision = "0035"

_COLUMNS = {
    "primary_term": "INT UNSIGNED NOT NULL DEFAULT 0",
    "primary_server": "VARCHAR(255) NOT NULL DEFAULT ''",
}


def upgrade() -> None:
    """Add what an interrupted run did not; the first transaction of a process claims its server."""
    existing = {column["name"] for column in inspect(op.get_bind()).get_columns("installation")}
    for name, kind in _COLUMNS.items():
        if name not in existing:
            op.execute(f"ALTER TABLE installation ADD COLUMN {name} {kind}")


def downgrade() -> None:
    """Drop both columns."""
    for name in _COLUMNS:
        op.execute(f"ALTER TABLE installation DROP COLUMN {name}")
