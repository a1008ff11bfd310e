"""Chunks that can be edited and switched off, what the reconciler remembers, and tenants that were erased."""

from alembic import op

revision = "0003"
down_revision = "0002"

_TENANT = "tenant_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL"
_OPTIONS = "ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
_NAME = "VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"

TABLES: dict[str, str] = {
    "alignment_state": f"""
        {_TENANT},
        namespace {_NAME} NULL,
        phase VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NULL,
        after_document {_NAME} NULL,
        checked_at DATETIME(6) NOT NULL,
        chunks BIGINT UNSIGNED NOT NULL DEFAULT 0,
        missing BIGINT UNSIGNED NOT NULL DEFAULT 0,
        orphaned BIGINT UNSIGNED NOT NULL DEFAULT 0,
        stale BIGINT UNSIGNED NOT NULL DEFAULT 0,
        misplaced BIGINT UNSIGNED NOT NULL DEFAULT 0,
        miscounted BIGINT UNSIGNED NOT NULL DEFAULT 0,
        leftover BIGINT UNSIGNED NOT NULL DEFAULT 0,
        statistics BIGINT UNSIGNED NOT NULL DEFAULT 0,
        repaired BIGINT UNSIGNED NOT NULL DEFAULT 0,
        PRIMARY KEY (tenant_id)""",
    "erasures": f"""
        {_TENANT},
        requested_at DATETIME(6) NOT NULL,
        settled_at DATETIME(6) NULL,
        erased JSON NOT NULL,
        PRIMARY KEY (tenant_id)""",
}


def upgrade() -> None:
    """Existing chunks are enabled and at version 1."""
    op.execute(
        "ALTER TABLE chunks ADD COLUMN enabled TINYINT NOT NULL DEFAULT 1,"
        " ADD COLUMN version INT UNSIGNED NOT NULL DEFAULT 1, ADD COLUMN edited_at DATETIME(6) NULL"
    )
    op.execute("ALTER TABLE generations ADD COLUMN removed_ordinals JSON NULL")
    for name, columns in TABLES.items():
        op.execute(f"CREATE TABLE {name} ({columns}) {_OPTIONS}")


def downgrade() -> None:
    """What was edited stays as it is; what was switched off is shown again."""
    for name in reversed(TABLES):
        op.execute(f"DROP TABLE {name}")
    op.execute("ALTER TABLE generations DROP COLUMN removed_ordinals")
    op.execute("ALTER TABLE chunks DROP COLUMN enabled, DROP COLUMN version, DROP COLUMN edited_at")
