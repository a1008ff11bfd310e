"""One vector for each document: the mean of its chunks' vectors. It can be made again from them at any time.

``content_hash`` is that of the hashes of the chunks it was made of, in order of chunk id: it tells a vector that is
older than one of its chunks.
"""

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the table, and the vectors of the documents that are there."""
    op.execute(
        """
        CREATE TABLE document_embeddings (
            tenant_id text NOT NULL,
            namespace text NOT NULL,
            document_id text NOT NULL,
            generation integer NOT NULL,
            embedding halfvec NOT NULL,
            model text NOT NULL,
            chunk_count integer NOT NULL,
            content_hash bytea NOT NULL,
            PRIMARY KEY (tenant_id, namespace, document_id, generation)
        )
        """
    )
    op.execute(
        """
        INSERT INTO document_embeddings
            (tenant_id, namespace, document_id, generation, embedding, model, chunk_count, content_hash)
        SELECT tenant_id, namespace, document_id, generation, l2_normalize(avg(embedding)), max(model), count(*),
            sha256(string_agg(content_hash, ''::bytea ORDER BY chunk_id))
        FROM chunk_embeddings GROUP BY tenant_id, namespace, document_id, generation
        """
    )


def downgrade() -> None:
    """Drop the table."""
    op.execute("DROP TABLE document_embeddings")
