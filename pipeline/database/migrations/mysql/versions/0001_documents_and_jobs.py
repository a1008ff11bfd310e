"""Tenants, keys, documents with their generations and chunks, and the ledger of ingestion.

Written as SQL because every column states its collation (defaults differ between MariaDB and MySQL) and because the
same text must run on both. Every key begins with the tenant.
"""

from alembic import op

revision = "0001"
down_revision = None

_TENANT = "tenant_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL"
_NAMESPACE = "namespace VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
_DOCUMENT = "document_id VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
_JOB = "job_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL"
_OPTIONS = "ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"

TABLES: dict[str, str] = {
    "tenants": f"""
        {_TENANT},
        name VARCHAR(255) NOT NULL,
        created_at DATETIME(6) NOT NULL,
        PRIMARY KEY (tenant_id)""",
    "api_keys": f"""
        {_TENANT},
        key_hash BINARY(32) NOT NULL,
        name VARCHAR(255) NOT NULL,
        scopes VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        created_at DATETIME(6) NOT NULL,
        expires_at DATETIME(6) NULL,
        revoked_at DATETIME(6) NULL,
        PRIMARY KEY (tenant_id, key_hash)""",
    "namespaces": f"""
        {_TENANT},
        {_NAMESPACE},
        chunk_count BIGINT NOT NULL DEFAULT 0,
        term_count BIGINT NOT NULL DEFAULT 0,
        created_at DATETIME(6) NOT NULL,
        PRIMARY KEY (tenant_id, namespace)""",
    "documents": f"""
        {_TENANT},
        {_NAMESPACE},
        {_DOCUMENT},
        latest_generation INT UNSIGNED NOT NULL,
        published_generation INT UNSIGNED NULL,
        deleted_generation INT UNSIGNED NOT NULL DEFAULT 0,
        created_at DATETIME(6) NOT NULL,
        updated_at DATETIME(6) NOT NULL,
        PRIMARY KEY (tenant_id, namespace, document_id)""",
    "generations": f"""
        {_TENANT},
        {_NAMESPACE},
        {_DOCUMENT},
        generation INT UNSIGNED NOT NULL,
        {_JOB},
        title VARCHAR(1024) NULL,
        author VARCHAR(255) NULL,
        type VARCHAR(64) NULL,
        tags JSON NOT NULL,
        published_at DATETIME(6) NULL,
        story_time BIGINT NULL,
        metadata JSON NOT NULL,
        source_uri VARCHAR(2048) NULL,
        media_type VARCHAR(127) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        chunking JSON NOT NULL,
        content_hash BINARY(32) NOT NULL,
        chunk_count INT UNSIGNED NULL,
        embedding_model VARCHAR(255) NULL,
        created_at DATETIME(6) NOT NULL,
        PRIMARY KEY (tenant_id, namespace, document_id, generation)""",
    "payloads": f"""
        {_TENANT},
        {_NAMESPACE},
        {_DOCUMENT},
        generation INT UNSIGNED NOT NULL,
        body LONGBLOB NOT NULL,
        PRIMARY KEY (tenant_id, namespace, document_id, generation)""",
    "chunks": f"""
        {_TENANT},
        {_NAMESPACE},
        {_DOCUMENT},
        generation INT UNSIGNED NOT NULL,
        ordinal INT UNSIGNED NOT NULL,
        chunk_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        text MEDIUMTEXT NOT NULL,
        heading_path JSON NOT NULL,
        page INT UNSIGNED NULL,
        start_offset INT UNSIGNED NOT NULL,
        end_offset INT UNSIGNED NOT NULL,
        token_count INT UNSIGNED NOT NULL,
        content_hash BINARY(32) NOT NULL,
        terms MEDIUMTEXT CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        term_count INT UNSIGNED NOT NULL,
        created_at DATETIME(6) NOT NULL,
        PRIMARY KEY (tenant_id, namespace, document_id, generation, ordinal),
        UNIQUE KEY chunks_by_id (tenant_id, chunk_id),
        FULLTEXT KEY chunks_terms (terms)""",
    "retired_generations": f"""
        {_TENANT},
        {_NAMESPACE},
        {_DOCUMENT},
        generation INT UNSIGNED NOT NULL,
        due_at DATETIME(6) NOT NULL,
        replaced_at DATETIME(6) NULL,
        PRIMARY KEY (tenant_id, namespace, document_id, generation),
        KEY retired_due (tenant_id, due_at)""",
    "term_statistics": f"""
        {_TENANT},
        {_NAMESPACE},
        term CHAR(13) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        chunk_count INT NOT NULL,
        PRIMARY KEY (tenant_id, namespace, term)""",
    "jobs": f"""
        {_TENANT},
        {_JOB},
        {_NAMESPACE},
        total INT UNSIGNED NOT NULL,
        request_id VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        created_at DATETIME(6) NOT NULL,
        updated_at DATETIME(6) NOT NULL,
        finished_at DATETIME(6) NULL,
        PRIMARY KEY (tenant_id, job_id),
        KEY jobs_by_time (tenant_id, created_at, job_id),
        KEY jobs_open (tenant_id, finished_at)""",
    "job_items": f"""
        {_TENANT},
        {_JOB},
        ordinal INT UNSIGNED NOT NULL,
        {_NAMESPACE},
        document_id VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
        generation INT UNSIGNED NULL,
        body_bytes INT UNSIGNED NOT NULL DEFAULT 0,
        state VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        stage VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        outcome VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NULL,
        chunk_count INT UNSIGNED NOT NULL DEFAULT 0,
        attempts INT UNSIGNED NOT NULL DEFAULT 0,
        fencing_token BIGINT UNSIGNED NOT NULL DEFAULT 0,
        lease_until DATETIME(6) NULL,
        next_attempt_at DATETIME(6) NULL,
        error_code VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
        error_detail VARCHAR(1024) NULL,
        error_pointer VARCHAR(255) NULL,
        updated_at DATETIME(6) NOT NULL,
        PRIMARY KEY (tenant_id, job_id, ordinal),
        KEY items_by_state (tenant_id, job_id, state, stage, chunk_count),
        KEY items_due (tenant_id, state, next_attempt_at),
        KEY items_leased (tenant_id, state, lease_until)""",
}


def upgrade() -> None:
    """Create every table, the parents first."""
    for name, columns in TABLES.items():
        op.execute(f"CREATE TABLE {name} ({columns}) {_OPTIONS}")


def downgrade() -> None:
    """Drop every table, the children first."""
    for name in reversed(TABLES):
        op.execute(f"DROP TABLE {name}")
