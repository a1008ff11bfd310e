"""Who searched and who wrote: one row for each search and each write."""

from alembic import op

revision = "0013"
down_revision = "0012"

_ASCII = "CHARACTER SET ascii COLLATE ascii_bin"


def upgrade() -> None:
    """An empty table: what happened before is not known."""
    op.execute(
        "CREATE TABLE audit ("
        f" tenant_id VARCHAR(64) {_ASCII} NOT NULL,"
        " at DATETIME(6) NOT NULL,"
        f" audit_id CHAR(36) {_ASCII} NOT NULL,"
        f" action VARCHAR(32) {_ASCII} NOT NULL,"
        f" key_id VARCHAR(32) {_ASCII} NOT NULL,"
        " key_name VARCHAR(255) NOT NULL,"
        f" scopes VARCHAR(255) {_ASCII} NOT NULL,"
        f" request_id VARCHAR(128) {_ASCII} NOT NULL,"
        " namespaces JSON NOT NULL,"
        " ids JSON NOT NULL,"
        " entries BIGINT UNSIGNED NOT NULL,"
        f" status VARCHAR(16) {_ASCII} NOT NULL,"
        f" query_hash CHAR(64) {_ASCII} NULL,"
        " query_text TEXT NULL,"
        " detail JSON NOT NULL,"
        " PRIMARY KEY (tenant_id, at, audit_id),"
        " KEY audit_by_action (tenant_id, action, at, audit_id)"
        ") ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    )


def downgrade() -> None:
    """Forget who did what."""
    op.execute("DROP TABLE audit")
