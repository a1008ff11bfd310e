"""Files that are kept before they are documents, and what a namespace is as a vector store: its name, what it is told
about itself, and the files that were put into it."""

from alembic import op

revision = "0020"
down_revision = "0019"

_ASCII = "CHARACTER SET ascii COLLATE ascii_bin"
_OPTIONS = "ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
_TENANT = f"tenant_id VARCHAR(64) {_ASCII} NOT NULL"
_NAMESPACE = "namespace VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
_FILE = (
    "file_id VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"  # as ids of documents, which it becomes
)
_DOCUMENT = "document_id VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"

TABLES: dict[str, str] = {
    "stored_files": f"""
        {_TENANT},
        {_FILE},
        filename VARCHAR(1024) NOT NULL,
        purpose VARCHAR(32) {_ASCII} NOT NULL,
        declared_type VARCHAR(127) {_ASCII} NULL,
        body_bytes BIGINT UNSIGNED NOT NULL,
        content_hash BINARY(32) NOT NULL,
        created_at DATETIME(6) NOT NULL,
        expires_at DATETIME(6) NULL,
        PRIMARY KEY (tenant_id, file_id),
        KEY stored_files_by_time (tenant_id, created_at, file_id),
        KEY stored_files_expiring (expires_at, tenant_id)""",
    "stored_file_bodies": f"""
        {_TENANT},
        {_FILE},
        body LONGBLOB NOT NULL,
        PRIMARY KEY (tenant_id, file_id)""",
    "vector_stores": f"""
        {_TENANT},
        {_NAMESPACE},
        name VARCHAR(256) NOT NULL,
        description VARCHAR(1024) NULL,
        metadata JSON NOT NULL,
        expires_after_days INT UNSIGNED NULL,
        last_active_at DATETIME(6) NOT NULL,
        expires_at DATETIME(6) NULL,
        emptied_at DATETIME(6) NULL,
        PRIMARY KEY (tenant_id, namespace),
        KEY vector_stores_expiring (expires_at, tenant_id)""",
    "attachments": f"""
        {_TENANT},
        {_NAMESPACE},
        {_DOCUMENT},
        job_id CHAR(36) {_ASCII} NOT NULL,
        ordinal INT UNSIGNED NOT NULL,
        filename VARCHAR(1024) NOT NULL,
        attributes JSON NOT NULL,
        chunking JSON NOT NULL,
        body_bytes BIGINT UNSIGNED NOT NULL,
        created_at DATETIME(6) NOT NULL,
        detached_at DATETIME(6) NULL,
        PRIMARY KEY (tenant_id, namespace, document_id),
        KEY attachments_by_time (tenant_id, namespace, created_at, document_id),
        KEY attachments_of_document (tenant_id, document_id),
        KEY attachments_detached (detached_at, tenant_id)""",
}


def upgrade() -> None:
    """No file is kept yet; namespaces that exist are vector stores named after themselves, without rows here."""
    for name, columns in TABLES.items():
        op.execute(f"CREATE TABLE {name} ({columns}) {_OPTIONS}")


def downgrade() -> None:
    """Files that were not put anywhere are gone; documents stay."""
    for name in reversed(TABLES):
        op.execute(f"DROP TABLE {name}")
