"""Create every table of the system of record. This revision replaces 0001 to 0029 of the time before the first release.

It has the last one's number, so a database that those revisions made is at it and continues with the next one. Written
as SQL because every column states its collation (the defaults of MariaDB and MySQL differ) and because one text must
run on both. Later changes of the schema are revisions of their own; this one stays as it is.
"""

from alembic import op

revision = "0029"
down_revision = None

_ASCII = "CHARACTER SET ascii COLLATE ascii_bin"
_TENANT = f"tenant_id VARCHAR(64) {_ASCII} NOT NULL"
_NAMESPACE = "namespace VARCHAR(64) NOT NULL"
_DOCUMENT = "document_id VARCHAR(64) NOT NULL"
_OPTIONS = "ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"

TABLES: dict[str, str] = {
    "tenants": f"""
        {_TENANT}, name VARCHAR(255) NOT NULL, created_at DATETIME(6) NOT NULL, quota_documents BIGINT UNSIGNED NULL,
        quota_chunks BIGINT UNSIGNED NULL, quota_queued BIGINT UNSIGNED NULL, quota_tokens BIGINT UNSIGNED NULL,
        quota_requests_per_minute INT UNSIGNED NULL, disabled_at DATETIME(6) NULL,
        PRIMARY KEY (tenant_id)""",
    "api_keys": f"""
        {_TENANT}, key_hash BINARY(32) NOT NULL, name VARCHAR(255) NOT NULL, scopes VARCHAR(255) {_ASCII} NOT NULL,
        created_at DATETIME(6) NOT NULL, expires_at DATETIME(6) NULL, revoked_at DATETIME(6) NULL,
        last_used_at DATETIME(6) NULL, replaced_by CHAR(16) {_ASCII} NULL,
        PRIMARY KEY (tenant_id, key_hash)""",
    "namespaces": f"""
        {_TENANT}, {_NAMESPACE}, chunk_count BIGINT NOT NULL DEFAULT 0, term_count BIGINT NOT NULL DEFAULT 0,
        created_at DATETIME(6) NOT NULL, revision BIGINT NOT NULL DEFAULT 0, revised_at DATETIME(6) NULL,
        PRIMARY KEY (tenant_id, namespace)""",
    "documents": f"""
        {_TENANT}, {_NAMESPACE}, {_DOCUMENT}, latest_generation INT UNSIGNED NOT NULL,
        published_generation INT UNSIGNED NULL, deleted_generation INT UNSIGNED NOT NULL DEFAULT 0,
        created_at DATETIME(6) NOT NULL, updated_at DATETIME(6) NOT NULL,
        settled_generation INT UNSIGNED NOT NULL DEFAULT 0, failed_generation INT UNSIGNED NOT NULL DEFAULT 0,
        cancelled_generation INT UNSIGNED NOT NULL DEFAULT 0,
        PRIMARY KEY (tenant_id, namespace, document_id)""",
    "generations": f"""
        {_TENANT}, {_NAMESPACE}, {_DOCUMENT}, generation INT UNSIGNED NOT NULL, job_id CHAR(36) {_ASCII} NOT NULL,
        title VARCHAR(1024) NULL, author VARCHAR(255) NULL, type VARCHAR(64) NULL, tags JSON NOT NULL,
        published_at DATETIME(6) NULL, story_time BIGINT NULL, metadata JSON NOT NULL, source_uri VARCHAR(2048) NULL,
        media_type VARCHAR(127) {_ASCII} NOT NULL, chunking JSON NOT NULL, content_hash BINARY(32) NOT NULL,
        chunk_count INT UNSIGNED NULL, embedding_model VARCHAR(255) NULL, created_at DATETIME(6) NOT NULL,
        removed_ordinals JSON NULL, recipe BINARY(32) NULL, body_bytes INT UNSIGNED NOT NULL DEFAULT 0,
        encoding JSON NULL, source_id VARCHAR(64) NOT NULL DEFAULT '', page_start INT UNSIGNED NULL,
        page_end INT UNSIGNED NULL, terms_version SMALLINT NOT NULL DEFAULT 1,
        PRIMARY KEY (tenant_id, namespace, document_id, generation),
        KEY generations_by_source (tenant_id, namespace, source_id),
        KEY generations_by_content (tenant_id, namespace, content_hash),
        KEY generations_by_terms (terms_version, tenant_id)""",
    "payloads": f"""
        {_TENANT}, {_NAMESPACE}, {_DOCUMENT}, generation INT UNSIGNED NOT NULL, body LONGBLOB NOT NULL,
        to_fetch TINYINT(1) NOT NULL DEFAULT 0,
        PRIMARY KEY (tenant_id, namespace, document_id, generation)""",
    "chunks": f"""
        {_TENANT}, {_NAMESPACE}, {_DOCUMENT}, generation INT UNSIGNED NOT NULL, ordinal INT UNSIGNED NOT NULL,
        chunk_id CHAR(36) {_ASCII} NOT NULL, text MEDIUMTEXT NOT NULL, heading_path JSON NOT NULL,
        page INT UNSIGNED NULL, start_offset INT UNSIGNED NOT NULL, end_offset INT UNSIGNED NOT NULL,
        token_count INT UNSIGNED NOT NULL, content_hash BINARY(32) NOT NULL, terms MEDIUMTEXT {_ASCII} NOT NULL,
        term_count INT UNSIGNED NOT NULL, created_at DATETIME(6) NOT NULL, enabled TINYINT NOT NULL DEFAULT 1,
        version INT UNSIGNED NOT NULL DEFAULT 1, edited_at DATETIME(6) NULL,
        chunk_type VARCHAR(16) {_ASCII} NOT NULL DEFAULT 'parent', parent_id CHAR(36) {_ASCII} NULL,
        chunk_index INT UNSIGNED NOT NULL DEFAULT 0, story_time BIGINT NULL, segment JSON NULL,
        title_terms INT UNSIGNED NOT NULL DEFAULT 0, summary_terms INT UNSIGNED NOT NULL DEFAULT 0,
        entity_terms INT UNSIGNED NOT NULL DEFAULT 0, page_end INT UNSIGNED NULL, reworded TINYINT NOT NULL DEFAULT 0,
        PRIMARY KEY (tenant_id, namespace, document_id, generation, ordinal),
        UNIQUE KEY chunks_by_id (tenant_id, chunk_id), FULLTEXT KEY chunks_terms (terms)""",
    "retired_generations": f"""
        {_TENANT}, {_NAMESPACE}, {_DOCUMENT}, generation INT UNSIGNED NOT NULL, due_at DATETIME(6) NOT NULL,
        replaced_at DATETIME(6) NULL,
        PRIMARY KEY (tenant_id, namespace, document_id, generation), KEY retired_due (tenant_id, due_at)""",
    "term_statistics": f"""
        {_TENANT}, {_NAMESPACE}, term CHAR(13) {_ASCII} NOT NULL, chunk_count INT NOT NULL,
        PRIMARY KEY (tenant_id, namespace, term)""",
    "jobs": f"""
        {_TENANT}, job_id CHAR(36) {_ASCII} NOT NULL, {_NAMESPACE}, total INT UNSIGNED NOT NULL,
        request_id VARCHAR(128) {_ASCII} NOT NULL, created_at DATETIME(6) NOT NULL, updated_at DATETIME(6) NOT NULL,
        finished_at DATETIME(6) NULL, paused_at DATETIME(6) NULL, served_at DATETIME(6) NULL,
        revision BIGINT UNSIGNED NOT NULL DEFAULT 1, priority VARCHAR(16) {_ASCII} NOT NULL DEFAULT 'bulk',
        PRIMARY KEY (tenant_id, job_id), KEY jobs_by_time (tenant_id, created_at, job_id),
        KEY jobs_open (tenant_id, finished_at), KEY jobs_unfinished (finished_at, tenant_id, job_id)""",
    "job_items": f"""
        {_TENANT}, job_id CHAR(36) {_ASCII} NOT NULL, ordinal INT UNSIGNED NOT NULL, {_NAMESPACE},
        document_id VARCHAR(64) NULL, generation INT UNSIGNED NULL, body_bytes INT UNSIGNED NOT NULL DEFAULT 0,
        state VARCHAR(16) {_ASCII} NOT NULL, stage VARCHAR(16) {_ASCII} NOT NULL, outcome VARCHAR(32) {_ASCII} NULL,
        chunk_count INT UNSIGNED NOT NULL DEFAULT 0, attempts INT UNSIGNED NOT NULL DEFAULT 0,
        fencing_token BIGINT UNSIGNED NOT NULL DEFAULT 0, lease_until DATETIME(6) NULL,
        next_attempt_at DATETIME(6) NULL, error_code VARCHAR(64) {_ASCII} NULL, error_detail VARCHAR(1024) NULL,
        error_pointer VARCHAR(255) NULL, updated_at DATETIME(6) NOT NULL, failure VARCHAR(16) {_ASCII} NULL,
        dead_at DATETIME(6) NULL, failed_revision BIGINT UNSIGNED NULL, reused_count INT UNSIGNED NOT NULL DEFAULT 0,
        requested_id VARCHAR(64) NULL,
        PRIMARY KEY (tenant_id, job_id, ordinal), KEY items_leased (tenant_id, state, lease_until),
        KEY items_due (tenant_id, job_id, state, next_attempt_at), KEY items_dead (tenant_id, dead_at, job_id, ordinal),
        KEY items_failed (tenant_id, job_id, failed_revision, ordinal),
        KEY items_by_state (tenant_id, job_id, state, stage, outcome, chunk_count, reused_count)""",
    "ingest_turns": f"""
        {_TENANT}, served_at DATETIME(6) NOT NULL, interactive_in_a_row INT UNSIGNED NOT NULL DEFAULT 0,
        PRIMARY KEY (tenant_id)""",
    "alignment_state": f"""
        {_TENANT}, namespace VARCHAR(64) NULL, phase VARCHAR(16) {_ASCII} NULL, after_document VARCHAR(64) NULL,
        checked_at DATETIME(6) NOT NULL, chunks BIGINT UNSIGNED NOT NULL DEFAULT 0,
        missing BIGINT UNSIGNED NOT NULL DEFAULT 0, orphaned BIGINT UNSIGNED NOT NULL DEFAULT 0,
        stale BIGINT UNSIGNED NOT NULL DEFAULT 0, misplaced BIGINT UNSIGNED NOT NULL DEFAULT 0,
        miscounted BIGINT UNSIGNED NOT NULL DEFAULT 0, leftover BIGINT UNSIGNED NOT NULL DEFAULT 0,
        statistics BIGINT UNSIGNED NOT NULL DEFAULT 0, repaired BIGINT UNSIGNED NOT NULL DEFAULT 0,
        document_vectors BIGINT UNSIGNED NOT NULL DEFAULT 0, pass_deleted BIGINT UNSIGNED NOT NULL DEFAULT 0,
        pass_withheld BIGINT UNSIGNED NOT NULL DEFAULT 0, withheld BIGINT UNSIGNED NOT NULL DEFAULT 0,
        PRIMARY KEY (tenant_id)""",
    "erasures": f"""
        {_TENANT}, requested_at DATETIME(6) NOT NULL, settled_at DATETIME(6) NULL, erased JSON NOT NULL,
        PRIMARY KEY (tenant_id)""",
    "parent_chunks": f"""
        {_TENANT}, {_NAMESPACE}, {_DOCUMENT}, generation INT UNSIGNED NOT NULL, ordinal INT UNSIGNED NOT NULL,
        chunk_id CHAR(36) {_ASCII} NOT NULL, text MEDIUMTEXT NOT NULL, heading_path JSON NOT NULL,
        page INT UNSIGNED NULL, start_offset INT UNSIGNED NOT NULL, end_offset INT UNSIGNED NOT NULL,
        token_count INT UNSIGNED NOT NULL, version INT UNSIGNED NOT NULL DEFAULT 1, created_at DATETIME(6) NOT NULL,
        edited_at DATETIME(6) NULL, page_end INT UNSIGNED NULL,
        PRIMARY KEY (tenant_id, namespace, document_id, generation, ordinal),
        UNIQUE KEY parent_chunks_by_id (tenant_id, chunk_id)""",
    "embedding_usage": f"""
        {_TENANT}, day DATE NOT NULL, job_id VARCHAR(36) {_ASCII} NOT NULL, purpose VARCHAR(16) {_ASCII} NOT NULL,
        model VARCHAR(255) NOT NULL, requests BIGINT UNSIGNED NOT NULL, texts BIGINT UNSIGNED NOT NULL,
        tokens BIGINT UNSIGNED NOT NULL, cached_texts BIGINT UNSIGNED NOT NULL, saved_tokens BIGINT UNSIGNED NOT NULL,
        cost DECIMAL(24, 9) NOT NULL,
        PRIMARY KEY (tenant_id, day, job_id, purpose, model), KEY usage_by_job (tenant_id, job_id)""",
    "embedding_pointer": """
        id TINYINT UNSIGNED NOT NULL, active_space INT UNSIGNED NOT NULL, standby_space INT UNSIGNED NULL,
        PRIMARY KEY (id)""",
    "embedding_spaces": f"""
        number INT UNSIGNED NOT NULL, table_name VARCHAR(63) {_ASCII} NOT NULL, provider VARCHAR(16) {_ASCII} NOT NULL,
        model VARCHAR(255) NOT NULL, dimension INT UNSIGNED NOT NULL, service VARCHAR(16) {_ASCII} NOT NULL,
        state VARCHAR(16) {_ASCII} NOT NULL, source INT UNSIGNED NULL, pass INT UNSIGNED NOT NULL DEFAULT 1,
        missing BIGINT UNSIGNED NULL, comparison JSON NULL, lease_token BIGINT UNSIGNED NOT NULL DEFAULT 0,
        lease_until DATETIME(6) NULL, next_step_at DATETIME(6) NOT NULL, error_code VARCHAR(64) {_ASCII} NULL,
        error_detail VARCHAR(1024) NULL, created_at DATETIME(6) NOT NULL, ready_at DATETIME(6) NULL,
        switched_at DATETIME(6) NULL, ended_at DATETIME(6) NULL,
        PRIMARY KEY (number)""",
    "embedding_backfill": f"""
        {_TENANT}, space INT UNSIGNED NOT NULL, pass INT UNSIGNED NOT NULL, finished TINYINT NOT NULL DEFAULT 0,
        namespace VARCHAR(64) NULL, phase VARCHAR(16) {_ASCII} NULL, after_document VARCHAR(64) NULL,
        chunks BIGINT UNSIGNED NOT NULL DEFAULT 0, found BIGINT UNSIGNED NOT NULL DEFAULT 0,
        mended BIGINT UNSIGNED NOT NULL DEFAULT 0, embedded BIGINT UNSIGNED NOT NULL DEFAULT 0,
        updated_at DATETIME(6) NOT NULL,
        PRIMARY KEY (tenant_id, space)""",
    "embedding_backlog": f"""
        {_TENANT}, space INT UNSIGNED NOT NULL, {_NAMESPACE}, {_DOCUMENT}, noted_at DATETIME(6) NOT NULL,
        next_attempt_at DATETIME(6) NOT NULL, attempts INT UNSIGNED NOT NULL DEFAULT 0,
        PRIMARY KEY (tenant_id, space, namespace, document_id)""",
    "webhooks": f"""
        {_TENANT}, webhook_id CHAR(36) {_ASCII} NOT NULL, url VARCHAR(2048) NOT NULL,
        events VARCHAR(255) {_ASCII} NOT NULL, secret VARBINARY(255) NOT NULL, previous_secret VARBINARY(255) NULL,
        previous_until DATETIME(6) NULL, created_at DATETIME(6) NOT NULL, updated_at DATETIME(6) NOT NULL,
        failing_since DATETIME(6) NULL, delivered_at DATETIME(6) NULL, disabled_at DATETIME(6) NULL,
        disabled_reason VARCHAR(32) {_ASCII} NULL,
        PRIMARY KEY (tenant_id, webhook_id)""",
    "webhook_deliveries": f"""
        {_TENANT}, webhook_id CHAR(36) {_ASCII} NOT NULL, delivery_id VARCHAR(64) {_ASCII} NOT NULL,
        event VARCHAR(32) {_ASCII} NOT NULL, job_id CHAR(36) {_ASCII} NULL, body MEDIUMTEXT NOT NULL,
        state VARCHAR(16) {_ASCII} NOT NULL, attempts INT UNSIGNED NOT NULL DEFAULT 0, next_attempt_at DATETIME(6) NULL,
        lease_until DATETIME(6) NULL, claim_id CHAR(36) {_ASCII} NULL, created_at DATETIME(6) NOT NULL,
        ended_at DATETIME(6) NULL, last_status SMALLINT UNSIGNED NULL, last_error VARCHAR(255) NULL,
        last_attempt_at DATETIME(6) NULL,
        PRIMARY KEY (tenant_id, webhook_id, delivery_id),
        KEY deliveries_due (state, next_attempt_at, tenant_id, webhook_id),
        KEY deliveries_by_time (tenant_id, webhook_id, created_at, delivery_id),
        KEY deliveries_ended (state, ended_at, tenant_id)""",
    "import_parts": f"""
        {_TENANT}, {_NAMESPACE}, import_id VARCHAR(64) {_ASCII} NOT NULL, part INT UNSIGNED NOT NULL,
        sha256 BINARY(32) NOT NULL, job_id CHAR(36) {_ASCII} NOT NULL, documents INT UNSIGNED NOT NULL,
        chunks INT UNSIGNED NOT NULL, vectors INT UNSIGNED NOT NULL, vectors_kept TINYINT NOT NULL,
        received_at DATETIME(6) NOT NULL,
        PRIMARY KEY (tenant_id, namespace, import_id, part)""",
    "kept_generations": f"""
        {_TENANT}, {_NAMESPACE}, {_DOCUMENT}, generation INT UNSIGNED NOT NULL, kept_until DATETIME(6) NOT NULL,
        PRIMARY KEY (tenant_id, namespace, document_id, generation), KEY kept_due (tenant_id, kept_until)""",
    "term_changes": f"""
        {_TENANT}, {_NAMESPACE}, change_id CHAR(36) {_ASCII} NOT NULL, changes MEDIUMBLOB NOT NULL,
        created_at DATETIME(6) NOT NULL,
        PRIMARY KEY (tenant_id, namespace, change_id)""",
    "profiles": f"""
        {_TENANT}, name VARCHAR(64) NOT NULL, version INT UNSIGNED NOT NULL, config JSON NOT NULL,
        note VARCHAR(255) NOT NULL DEFAULT '', created_by VARCHAR(255) NOT NULL DEFAULT '',
        created_at DATETIME(6) NOT NULL,
        PRIMARY KEY (tenant_id, name, version)""",
    "profile_heads": f"""
        {_TENANT}, name VARCHAR(64) NOT NULL, active_version INT UNSIGNED NOT NULL, previous_version INT UNSIGNED NULL,
        trial_version INT UNSIGNED NULL, trial_share DOUBLE NOT NULL DEFAULT 0, updated_at DATETIME(6) NOT NULL,
        PRIMARY KEY (tenant_id, name)""",
    "experiments": f"""
        {_TENANT}, experiment_id VARCHAR(64) NOT NULL, config JSON NOT NULL, active BOOLEAN NOT NULL DEFAULT TRUE,
        created_at DATETIME(6) NOT NULL, updated_at DATETIME(6) NOT NULL,
        PRIMARY KEY (tenant_id, experiment_id)""",
    "audit": f"""
        {_TENANT}, at DATETIME(6) NOT NULL, audit_id CHAR(36) {_ASCII} NOT NULL, action VARCHAR(32) {_ASCII} NOT NULL,
        key_id VARCHAR(32) {_ASCII} NOT NULL, key_name VARCHAR(255) NOT NULL, scopes VARCHAR(255) {_ASCII} NOT NULL,
        request_id VARCHAR(128) {_ASCII} NOT NULL, namespaces JSON NOT NULL, ids JSON NOT NULL,
        entries BIGINT UNSIGNED NOT NULL, status VARCHAR(16) {_ASCII} NOT NULL, query_hash CHAR(64) {_ASCII} NULL,
        query_text TEXT NULL, detail JSON NOT NULL,
        PRIMARY KEY (tenant_id, at, audit_id), KEY audit_by_action (tenant_id, action, at, audit_id)""",
    "entity_states": f"""
        {_TENANT}, {_NAMESPACE}, entity_id VARCHAR(64) NOT NULL, story_time BIGINT NOT NULL, name VARCHAR(255) NOT NULL,
        name_key VARCHAR(255) NOT NULL, type VARCHAR(64) NULL, state JSON NOT NULL, updated_at DATETIME(6) NOT NULL,
        PRIMARY KEY (tenant_id, namespace, entity_id, story_time),
        KEY entity_states_by_name (tenant_id, namespace, name_key)""",
    "dictionaries": f"""
        {_TENANT}, {_NAMESPACE}, said JSON NULL, version INT UNSIGNED NOT NULL, updated_at DATETIME(6) NOT NULL,
        PRIMARY KEY (tenant_id, namespace)""",
    "feedback": f"""
        {_TENANT}, feedback_id CHAR(36) {_ASCII} NOT NULL, created_at DATETIME(6) NOT NULL,
        rated_at DATETIME(6) NOT NULL, query_id CHAR(36) {_ASCII} NOT NULL, query_text TEXT NOT NULL,
        text_key BINARY(16) NOT NULL, namespaces JSON NOT NULL, {_NAMESPACE}, document_id VARCHAR(255) NOT NULL,
        chunk_id VARCHAR(255) NULL, rating VARCHAR(8) {_ASCII} NOT NULL, note VARCHAR(2000) NULL,
        place INT UNSIGNED NULL, score DOUBLE NULL, source VARCHAR(16) {_ASCII} NULL, profile VARCHAR(128) NOT NULL,
        config_version INT UNSIGNED NOT NULL, experiment_id VARCHAR(128) NULL, experiment_bucket VARCHAR(128) NULL,
        session_id VARCHAR(128) NULL, request_id VARCHAR(128) {_ASCII} NOT NULL,
        PRIMARY KEY (tenant_id, feedback_id), KEY feedback_by_time (tenant_id, created_at, feedback_id),
        KEY feedback_by_text (tenant_id, namespace, text_key),
        KEY feedback_by_arm (tenant_id, experiment_id, experiment_bucket)""",
    "api_sources": f"""
        {_TENANT}, name VARCHAR(64) {_ASCII} NOT NULL, source JSON NOT NULL, secrets BLOB NULL,
        created_at DATETIME(6) NOT NULL, updated_at DATETIME(6) NOT NULL,
        PRIMARY KEY (tenant_id, name)""",
    "idempotency_keys": f"""
        {_TENANT}, digest BINARY(32) NOT NULL, work_id CHAR(36) {_ASCII} NOT NULL, token CHAR(36) {_ASCII} NOT NULL,
        claimed_until DATETIME(6) NOT NULL, expires_at DATETIME(6) NOT NULL, fingerprint BINARY(32) NULL,
        status SMALLINT UNSIGNED NULL, answer MEDIUMBLOB NULL,
        PRIMARY KEY (tenant_id, digest), KEY ix_idempotency_keys_expiry (expires_at, tenant_id)""",
    "stored_files": f"""
        {_TENANT}, file_id VARCHAR(64) NOT NULL, filename VARCHAR(1024) NOT NULL, purpose VARCHAR(32) {_ASCII} NOT NULL,
        declared_type VARCHAR(127) {_ASCII} NULL, body_bytes BIGINT UNSIGNED NOT NULL, content_hash BINARY(32) NOT NULL,
        created_at DATETIME(6) NOT NULL, expires_at DATETIME(6) NULL,
        PRIMARY KEY (tenant_id, file_id), KEY stored_files_by_time (tenant_id, created_at, file_id),
        KEY stored_files_expiring (expires_at, tenant_id)""",
    "stored_file_bodies": f"""
        {_TENANT}, file_id VARCHAR(64) NOT NULL, body LONGBLOB NOT NULL,
        PRIMARY KEY (tenant_id, file_id)""",
    "vector_stores": f"""
        {_TENANT}, {_NAMESPACE}, name VARCHAR(256) NOT NULL, description VARCHAR(1024) NULL, metadata JSON NOT NULL,
        expires_after_days INT UNSIGNED NULL, last_active_at DATETIME(6) NOT NULL, expires_at DATETIME(6) NULL,
        emptied_at DATETIME(6) NULL,
        PRIMARY KEY (tenant_id, namespace), KEY vector_stores_expiring (expires_at, tenant_id)""",
    "attachments": f"""
        {_TENANT}, {_NAMESPACE}, {_DOCUMENT}, job_id CHAR(36) {_ASCII} NOT NULL, ordinal INT UNSIGNED NOT NULL,
        filename VARCHAR(1024) NOT NULL, attributes JSON NOT NULL, chunking JSON NOT NULL,
        body_bytes BIGINT UNSIGNED NOT NULL, created_at DATETIME(6) NOT NULL, detached_at DATETIME(6) NULL,
        PRIMARY KEY (tenant_id, namespace, document_id),
        KEY attachments_by_time (tenant_id, namespace, created_at, document_id),
        KEY attachments_of_document (tenant_id, document_id), KEY attachments_detached (detached_at, tenant_id)""",
    "installation": f"""
        id TINYINT UNSIGNED NOT NULL, installation_id CHAR(36) {_ASCII} NOT NULL, created_at DATETIME(6) NOT NULL,
        PRIMARY KEY (id)""",
    "computation_bodies": f"""
        {_TENANT}, computation_id CHAR(36) {_ASCII} NOT NULL, piece INT UNSIGNED NOT NULL, body MEDIUMBLOB NOT NULL,
        expires_at DATETIME(6) NOT NULL,
        PRIMARY KEY (tenant_id, computation_id, piece), KEY computation_bodies_expiring (expires_at, tenant_id)""",
    "sources": f"""
        {_TENANT}, {_NAMESPACE}, source_id VARCHAR(64) NOT NULL, kind VARCHAR(16) {_ASCII} NOT NULL,
        uri VARCHAR(2048) NULL, media_type VARCHAR(127) {_ASCII} NOT NULL, created_at DATETIME(6) NOT NULL,
        PRIMARY KEY (tenant_id, namespace, source_id)""",
    "publications": f"""
        {_TENANT}, {_NAMESPACE}, revision BIGINT NOT NULL, {_DOCUMENT}, revised_at DATETIME(6) NOT NULL,
        PRIMARY KEY (tenant_id, namespace, revision, document_id), KEY publications_by_age (tenant_id, revised_at)""",
}


def upgrade() -> None:
    """Create the tables, and the pointer to the embedding space that the settings describe. MySQL commits each statement
    alone, so a run that was interrupted has to continue with the next one."""
    for name, columns in TABLES.items():
        op.execute(f"CREATE TABLE IF NOT EXISTS {name} ({columns}) {_OPTIONS}")
    op.execute("INSERT IGNORE INTO embedding_pointer (id, active_space, standby_space) VALUES (1, 1, NULL)")


def downgrade() -> None:
    """Drop every table."""
    for name in reversed(TABLES):
        op.execute(f"DROP TABLE IF EXISTS {name}")
