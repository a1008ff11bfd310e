"""Add the sources that are followed, and the version of a document's file in its source.

Documents of before have no version, as NULL says. Processes of the version before go on working.
"""

from alembic import op

revision = "0038"
down_revision = "0037"

_ASCII = "CHARACTER SET ascii COLLATE ascii_bin"


def upgrade() -> None:
    """Create the table and the column that an interrupted run has not created."""
    op.execute(f"""
        CREATE TABLE IF NOT EXISTS followed_sources (
            tenant_id VARCHAR(64) {_ASCII} NOT NULL, namespace VARCHAR(64) NOT NULL, source_id VARCHAR(64) NOT NULL,
            url VARCHAR(2048) NOT NULL, every_s INT UNSIGNED NOT NULL, rules JSON NOT NULL, secret BLOB NULL,
            created_at DATETIME(6) NOT NULL, updated_at DATETIME(6) NOT NULL, next_run_at DATETIME(6) NULL,
            job_id CHAR(36) {_ASCII} NULL,
            held_removals INT UNSIGNED NULL, confirmed_removals INT UNSIGNED NULL, run JSON NULL,
            PRIMARY KEY (tenant_id, namespace, source_id), KEY followed_sources_due (next_run_at, tenant_id)
        ) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin""")
    present = op.get_bind().exec_driver_sql(
        "SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE()"
        " AND table_name = 'generations' AND column_name = 'source_version'"
    )
    if present.first() is None:
        op.execute("ALTER TABLE generations ADD COLUMN source_version BINARY(32) NULL")


def downgrade() -> None:
    """Drop both; documents stay, and nothing is followed."""
    op.execute("DROP TABLE IF EXISTS followed_sources")
    op.execute("ALTER TABLE generations DROP COLUMN source_version")
