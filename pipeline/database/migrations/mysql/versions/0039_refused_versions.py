"""Add the version of the file that a document of a followed source could not be made of.

Documents of before have none, so their files are tried once more. Processes of the version before go on working.
"""

from alembic import op

revision = "0039"
down_revision = "0038"


def upgrade() -> None:
    """Add the column, unless an interrupted run has."""
    present = op.get_bind().exec_driver_sql(
        "SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE()"
        " AND table_name = 'documents' AND column_name = 'failed_version'"
    )
    if present.first() is None:
        op.execute("ALTER TABLE documents ADD COLUMN failed_version BINARY(32) NULL")


def downgrade() -> None:
    """Drop it; every run tries these files again."""
    op.execute("ALTER TABLE documents DROP COLUMN failed_version")
