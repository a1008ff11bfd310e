"""What embedding has cost, by tenant, day, job and model; and how much of it a tenant may have in a month."""

from alembic import op

revision = "0005"
down_revision = "0004"

_WORD = "CHARACTER SET ascii COLLATE ascii_bin"


def upgrade() -> None:
    """Nothing is known of what was embedded before."""
    op.execute(
        f"""CREATE TABLE embedding_usage (
        tenant_id VARCHAR(64) {_WORD} NOT NULL,
        day DATE NOT NULL,
        job_id VARCHAR(36) {_WORD} NOT NULL,
        purpose VARCHAR(16) {_WORD} NOT NULL,
        model VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
        requests BIGINT UNSIGNED NOT NULL,
        texts BIGINT UNSIGNED NOT NULL,
        tokens BIGINT UNSIGNED NOT NULL,
        cached_texts BIGINT UNSIGNED NOT NULL,
        saved_tokens BIGINT UNSIGNED NOT NULL,
        cost DECIMAL(24, 9) NOT NULL,
        PRIMARY KEY (tenant_id, day, job_id, purpose, model),
        KEY usage_by_job (tenant_id, job_id)
        ) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"""
    )
    op.execute("ALTER TABLE tenants ADD COLUMN quota_tokens BIGINT UNSIGNED NULL")


def downgrade() -> None:
    """The counts are gone."""
    op.execute("ALTER TABLE tenants DROP COLUMN quota_tokens")
    op.execute("DROP TABLE embedding_usage")
