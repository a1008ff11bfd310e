"""What people thought of hits: ratings and clicks, with what is needed of the query they belong to."""

from alembic import op

revision = "0016"
down_revision = "0015"

_ASCII = "CHARACTER SET ascii COLLATE ascii_bin"
_OPTIONS = "ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"

# ``text_key`` is a hash of the query text, by which the ratings of one question come together.
_COLUMNS = f"""
    tenant_id VARCHAR(64) {_ASCII} NOT NULL,
    feedback_id CHAR(36) {_ASCII} NOT NULL,
    created_at DATETIME(6) NOT NULL,
    rated_at DATETIME(6) NOT NULL,
    query_id CHAR(36) {_ASCII} NOT NULL,
    query_text TEXT NOT NULL,
    text_key BINARY(16) NOT NULL,
    namespaces JSON NOT NULL,
    namespace VARCHAR(64) NOT NULL,
    document_id VARCHAR(255) NOT NULL,
    chunk_id VARCHAR(255) NULL,
    rating VARCHAR(8) {_ASCII} NOT NULL,
    note VARCHAR(2000) NULL,
    place INT UNSIGNED NULL,
    score DOUBLE NULL,
    source VARCHAR(16) {_ASCII} NULL,
    profile VARCHAR(128) NOT NULL,
    config_version INT UNSIGNED NOT NULL,
    experiment_id VARCHAR(128) NULL,
    experiment_bucket VARCHAR(128) NULL,
    session_id VARCHAR(128) NULL,
    request_id VARCHAR(128) {_ASCII} NOT NULL,
    PRIMARY KEY (tenant_id, feedback_id),
    KEY feedback_by_time (tenant_id, created_at, feedback_id),
    KEY feedback_by_text (tenant_id, namespace, text_key),
    KEY feedback_by_arm (tenant_id, experiment_id, experiment_bucket)"""


def upgrade() -> None:
    """Create the table."""
    op.execute(f"CREATE TABLE feedback ({_COLUMNS}) {_OPTIONS}")


def downgrade() -> None:
    """Forget all feedback."""
    op.execute("DROP TABLE feedback")
