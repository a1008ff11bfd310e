"""What jobs tell: a revision that orders their failures, endpoints that want to be called, and the calls themselves."""

from alembic import op

revision = "0007"
down_revision = "0006"

_ASCII = "CHARACTER SET ascii COLLATE ascii_bin"
_TENANT = f"tenant_id VARCHAR(64) {_ASCII} NOT NULL"
_WEBHOOK = f"webhook_id CHAR(36) {_ASCII} NOT NULL"
_OPTIONS = "ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"

TABLES: dict[str, str] = {
    "webhooks": f"""
        {_TENANT},
        {_WEBHOOK},
        url VARCHAR(2048) NOT NULL,
        events VARCHAR(255) {_ASCII} NOT NULL,
        secret VARBINARY(255) NOT NULL,
        previous_secret VARBINARY(255) NULL,
        previous_until DATETIME(6) NULL,
        created_at DATETIME(6) NOT NULL,
        updated_at DATETIME(6) NOT NULL,
        failing_since DATETIME(6) NULL,
        delivered_at DATETIME(6) NULL,
        disabled_at DATETIME(6) NULL,
        disabled_reason VARCHAR(32) {_ASCII} NULL,
        PRIMARY KEY (tenant_id, webhook_id)""",
    "webhook_deliveries": f"""
        {_TENANT},
        {_WEBHOOK},
        delivery_id VARCHAR(64) {_ASCII} NOT NULL,
        event VARCHAR(32) {_ASCII} NOT NULL,
        job_id CHAR(36) {_ASCII} NULL,
        body MEDIUMTEXT NOT NULL,
        state VARCHAR(16) {_ASCII} NOT NULL,
        attempts INT UNSIGNED NOT NULL DEFAULT 0,
        next_attempt_at DATETIME(6) NULL,
        lease_until DATETIME(6) NULL,
        claim_id CHAR(36) {_ASCII} NULL,
        created_at DATETIME(6) NOT NULL,
        ended_at DATETIME(6) NULL,
        last_status SMALLINT UNSIGNED NULL,
        last_error VARCHAR(255) NULL,
        last_attempt_at DATETIME(6) NULL,
        PRIMARY KEY (tenant_id, webhook_id, delivery_id),
        KEY deliveries_due (state, next_attempt_at, tenant_id, webhook_id),
        KEY deliveries_by_time (tenant_id, webhook_id, created_at, delivery_id),
        KEY deliveries_ended (state, ended_at, tenant_id)""",
}


def upgrade() -> None:
    """Jobs that are there begin at revision 1, and so do the failures in them."""
    op.execute("ALTER TABLE jobs ADD COLUMN revision BIGINT UNSIGNED NOT NULL DEFAULT 1")
    op.execute(
        "ALTER TABLE job_items ADD COLUMN failed_revision BIGINT UNSIGNED NULL,"
        " ADD KEY items_failed (tenant_id, job_id, failed_revision, ordinal)"
    )
    op.execute("UPDATE job_items SET failed_revision = 1 WHERE state = 'failed'")
    for name, columns in TABLES.items():
        op.execute(f"CREATE TABLE {name} ({columns}) {_OPTIONS}")


def downgrade() -> None:
    """Forget endpoints, deliveries and revisions."""
    for name in reversed(TABLES):
        op.execute(f"DROP TABLE {name}")
    op.execute("ALTER TABLE job_items DROP KEY items_failed, DROP COLUMN failed_revision")
    op.execute("ALTER TABLE jobs DROP COLUMN revision")
