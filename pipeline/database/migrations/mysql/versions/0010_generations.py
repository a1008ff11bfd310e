"""What a generation was made of, uploads that changed nothing, generations kept for a rollback, reused vectors."""

from alembic import op

revision = "0010"
down_revision = "0009"

_TENANT = "tenant_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL"
_NAME = "VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
_OPTIONS = "ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"


def upgrade() -> None:
    """What is shown already has no recipe, so its next upload is made anew once, whatever it holds."""
    op.execute(
        "ALTER TABLE generations ADD COLUMN recipe BINARY(32) NULL,"
        " ADD COLUMN body_bytes INT UNSIGNED NOT NULL DEFAULT 0"
    )
    op.execute(
        "UPDATE generations g JOIN payloads p ON p.tenant_id = g.tenant_id AND p.namespace = g.namespace"
        " AND p.document_id = g.document_id AND p.generation = g.generation SET g.body_bytes = LENGTH(p.body)"
    )
    op.execute("ALTER TABLE documents ADD COLUMN settled_generation INT UNSIGNED NOT NULL DEFAULT 0")
    op.execute(
        f"CREATE TABLE kept_generations ({_TENANT}, namespace {_NAME}, document_id {_NAME},"
        " generation INT UNSIGNED NOT NULL, kept_until DATETIME(6) NOT NULL,"
        " PRIMARY KEY (tenant_id, namespace, document_id, generation),"
        f" KEY kept_due (tenant_id, kept_until)) {_OPTIONS}"
    )
    # Whoever looks at a job is answered from the index alone.
    op.execute(
        "ALTER TABLE job_items ADD COLUMN reused_count INT UNSIGNED NOT NULL DEFAULT 0, DROP KEY items_by_state,"
        " ADD KEY items_by_state (tenant_id, job_id, state, stage, outcome, chunk_count, reused_count)"
    )


def downgrade() -> None:
    """Bytes of generations that were kept stay behind without a use, until their document is deleted."""
    op.execute(
        "ALTER TABLE job_items DROP KEY items_by_state, DROP COLUMN reused_count,"
        " ADD KEY items_by_state (tenant_id, job_id, state, stage, chunk_count)"
    )
    op.execute("DROP TABLE kept_generations")
    op.execute("ALTER TABLE documents DROP COLUMN settled_generation")
    op.execute("ALTER TABLE generations DROP COLUMN recipe, DROP COLUMN body_bytes")
