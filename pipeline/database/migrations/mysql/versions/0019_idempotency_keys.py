"""How often a tenant may ask; and requests that may be sent again without being done again."""

from alembic import op

revision = "0019"
down_revision = "0018"

_ASCII = "CHARACTER SET ascii COLLATE ascii_bin"


def upgrade() -> None:
    """No key has been seen yet, and every tenant may ask as often as the settings say."""
    op.execute("ALTER TABLE tenants ADD COLUMN quota_requests_per_minute INT UNSIGNED NULL")
    op.execute(
        f"""CREATE TABLE idempotency_keys (
        tenant_id VARCHAR(64) {_ASCII} NOT NULL,
        digest BINARY(32) NOT NULL,
        work_id CHAR(36) {_ASCII} NOT NULL,
        token CHAR(36) {_ASCII} NOT NULL,
        claimed_until DATETIME(6) NOT NULL,
        expires_at DATETIME(6) NOT NULL,
        fingerprint BINARY(32) NULL,
        status SMALLINT UNSIGNED NULL,
        answer MEDIUMBLOB NULL,
        PRIMARY KEY (tenant_id, digest),
        KEY ix_idempotency_keys_expiry (expires_at, tenant_id)
        ) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"""
    )


def downgrade() -> None:
    """Requests that are sent again are done again."""
    op.execute("DROP TABLE idempotency_keys")
    op.execute("ALTER TABLE tenants DROP COLUMN quota_requests_per_minute")
