"""Where the vectors of which model stand, which of them searches use, and how far a move to another model has come.

`embedding_spaces` and `embedding_pointer` belong to the installation and name no tenant. The pointer is one row: moving
it is the switch, and a transaction that shows a document holds it still.
"""

from alembic import op

revision = "0006"
down_revision = "0005"

_WORD = "CHARACTER SET ascii COLLATE ascii_bin"
_TENANT = f"tenant_id VARCHAR(64) {_WORD} NOT NULL"
_NAME = "VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
_OPTIONS = "ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"

TABLES: dict[str, str] = {
    "embedding_pointer": """
        id TINYINT UNSIGNED NOT NULL,
        active_space INT UNSIGNED NOT NULL,
        standby_space INT UNSIGNED NULL,
        PRIMARY KEY (id)""",
    "embedding_spaces": f"""
        number INT UNSIGNED NOT NULL,
        table_name VARCHAR(63) {_WORD} NOT NULL,
        provider VARCHAR(16) {_WORD} NOT NULL,
        model VARCHAR(255) NOT NULL,
        dimension INT UNSIGNED NOT NULL,
        service VARCHAR(16) {_WORD} NOT NULL,
        state VARCHAR(16) {_WORD} NOT NULL,
        source INT UNSIGNED NULL,
        pass INT UNSIGNED NOT NULL DEFAULT 1,
        missing BIGINT UNSIGNED NULL,
        comparison JSON NULL,
        lease_token BIGINT UNSIGNED NOT NULL DEFAULT 0,
        lease_until DATETIME(6) NULL,
        next_step_at DATETIME(6) NOT NULL,
        error_code VARCHAR(64) {_WORD} NULL,
        error_detail VARCHAR(1024) NULL,
        created_at DATETIME(6) NOT NULL,
        ready_at DATETIME(6) NULL,
        switched_at DATETIME(6) NULL,
        ended_at DATETIME(6) NULL,
        PRIMARY KEY (number)""",
    "embedding_backfill": f"""
        {_TENANT},
        space INT UNSIGNED NOT NULL,
        pass INT UNSIGNED NOT NULL,
        finished TINYINT NOT NULL DEFAULT 0,
        namespace {_NAME} NULL,
        phase VARCHAR(16) {_WORD} NULL,
        after_document {_NAME} NULL,
        chunks BIGINT UNSIGNED NOT NULL DEFAULT 0,
        found BIGINT UNSIGNED NOT NULL DEFAULT 0,
        mended BIGINT UNSIGNED NOT NULL DEFAULT 0,
        embedded BIGINT UNSIGNED NOT NULL DEFAULT 0,
        updated_at DATETIME(6) NOT NULL,
        PRIMARY KEY (tenant_id, space)""",
    "embedding_backlog": f"""
        {_TENANT},
        space INT UNSIGNED NOT NULL,
        namespace {_NAME} NOT NULL,
        document_id {_NAME} NOT NULL,
        noted_at DATETIME(6) NOT NULL,
        next_attempt_at DATETIME(6) NOT NULL,
        attempts INT UNSIGNED NOT NULL DEFAULT 0,
        PRIMARY KEY (tenant_id, space, namespace, document_id)""",
}


def upgrade() -> None:
    """Space 1 is the one the settings describe; it gets a row of its own with the first migration."""
    for name, columns in TABLES.items():
        op.execute(f"CREATE TABLE {name} ({columns}) {_OPTIONS}")
    op.execute("INSERT INTO embedding_pointer (id, active_space, standby_space) VALUES (1, 1, NULL)")


def downgrade() -> None:
    """The settings say again which model there is."""
    for name in reversed(TABLES):
        op.execute(f"DROP TABLE {name}")
