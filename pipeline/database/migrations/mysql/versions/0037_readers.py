"""Add the readers of documents, the default of their namespaces, and the principals of API keys.

Every document so far may be read by every key of its tenant, as NULL says. Processes of the version before go on working.
"""

from alembic import op

revision = "0037"
down_revision = "0036"

_COLUMNS = {
    "generations": ("readers JSON NULL",),
    "namespaces": ("readers JSON NULL", "restricted TINYINT NOT NULL DEFAULT 0"),
    "api_keys": ("principals JSON NULL", "token_key BLOB NULL"),
}


def upgrade() -> None:
    """Add the columns that an interrupted run has not added."""
    present = {
        (table, column)
        for table, column in op.get_bind().exec_driver_sql(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = DATABASE()"
        )
    }
    for table, columns in _COLUMNS.items():
        for column in columns:
            if (table, column.partition(" ")[0]) not in present:
                op.execute(f"ALTER TABLE {table} ADD COLUMN {column}")


def downgrade() -> None:
    """Drop the columns; every key then sees every document of its tenant."""
    for table, columns in _COLUMNS.items():
        op.execute(f"ALTER TABLE {table} {', '.join('DROP COLUMN ' + column.partition(' ')[0] for column in columns)}")
