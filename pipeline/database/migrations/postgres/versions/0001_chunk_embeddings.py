"""One vector for each chunk, with the few columns that searches filter by.

No HNSW index: a tenant's rows are searched exactly through the btree until the tenant outgrows it, so that ingestion
does not pay for an index which small tenants do not need. The comment on the column says which distance the
installation was made for; start-up compares it with the settings.
"""

from alembic import context, op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the extension first, then the table with the dimension and the distance of the settings."""
    dimension = int(context.config.attributes["dimension"])
    operator_class = str(context.config.attributes["operator_class"])
    op.execute("CREATE EXTENSION IF NOT EXISTS vector")
    op.execute(
        f"""
        CREATE TABLE chunk_embeddings (
            tenant_id text NOT NULL,
            chunk_id uuid NOT NULL,
            namespace text NOT NULL,
            document_id text NOT NULL,
            generation integer NOT NULL,
            embedding halfvec({dimension}) NOT NULL,
            model text NOT NULL,
            content_hash bytea NOT NULL,
            type text,
            author text,
            tags text[] NOT NULL,
            published_at timestamptz,
            story_time bigint,
            metadata jsonb NOT NULL,
            created_at timestamptz NOT NULL DEFAULT now(),
            PRIMARY KEY (tenant_id, chunk_id)
        )
        """
    )
    op.execute(f"COMMENT ON COLUMN chunk_embeddings.embedding IS '{operator_class}'")
    op.execute(
        "CREATE INDEX chunk_embeddings_by_document ON chunk_embeddings (tenant_id, namespace, document_id, generation)"
    )


def downgrade() -> None:
    """Drop the table; the extension may serve others and stays."""
    op.execute("DROP TABLE chunk_embeddings")
