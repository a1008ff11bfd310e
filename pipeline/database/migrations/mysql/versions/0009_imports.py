"""Which parts of which archive were imported, so that an interrupted import goes on where it was."""

from alembic import op

revision = "0009"
down_revision = "0008"

_ASCII = "CHARACTER SET ascii COLLATE ascii_bin"


def upgrade() -> None:
    """One row for each part, written with the job it became."""
    op.execute(
        f"""CREATE TABLE import_parts (
        tenant_id VARCHAR(64) {_ASCII} NOT NULL,
        namespace VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
        import_id VARCHAR(64) {_ASCII} NOT NULL,
        part INT UNSIGNED NOT NULL,
        sha256 BINARY(32) NOT NULL,
        job_id CHAR(36) {_ASCII} NOT NULL,
        documents INT UNSIGNED NOT NULL,
        chunks INT UNSIGNED NOT NULL,
        vectors INT UNSIGNED NOT NULL,
        vectors_kept TINYINT NOT NULL,
        received_at DATETIME(6) NOT NULL,
        PRIMARY KEY (tenant_id, namespace, import_id, part)
        ) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"""
    )


def downgrade() -> None:
    """Archives that are imported again are taken again."""
    op.execute("DROP TABLE import_parts")
