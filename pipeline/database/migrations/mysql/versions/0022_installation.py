"""Add the id of the installation that this database belongs to, and the deletions that the reconciler withholds."""

from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    """Add the schema, without an id: `pipeline.database.installation` writes it once both stores are migrated."""
    op.execute(
        "CREATE TABLE installation ("
        " id TINYINT UNSIGNED NOT NULL,"
        " installation_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,"
        " created_at DATETIME(6) NOT NULL,"
        " PRIMARY KEY (id)) ENGINE=InnoDB"
    )
    op.execute(
        "ALTER TABLE alignment_state ADD COLUMN pass_deleted BIGINT UNSIGNED NOT NULL DEFAULT 0,"
        " ADD COLUMN pass_withheld BIGINT UNSIGNED NOT NULL DEFAULT 0,"
        " ADD COLUMN withheld BIGINT UNSIGNED NOT NULL DEFAULT 0"
    )


def downgrade() -> None:
    """Drop the withheld deletions and the id of the installation."""
    op.execute("ALTER TABLE alignment_state DROP COLUMN pass_deleted, DROP COLUMN pass_withheld, DROP COLUMN withheld")
    op.execute("DROP TABLE installation")
