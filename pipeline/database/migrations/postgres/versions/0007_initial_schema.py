"""Create every table of the vector store. This revision replaces 0001 to 0007 of the time before the first release.

It has the last one's number, so a database that those revisions made is at it and continues with the next one. Later
changes of the schema are revisions of their own; this one stays as it is. A revision that changes `chunk_embeddings`
has to change each of its copies too, which model migrations make: `vector_tables(connection)` names them.
"""

from alembic import context, op
from sqlalchemy import Connection, text

revision = "0007"
down_revision = None


def vector_tables(connection: Connection) -> list[str]:
    """Return the names of all tables that hold vectors of chunks."""
    rows = connection.execute(
        text(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
            " AND relname ~ '^chunk_embeddings(_[0-9]+)?$' ORDER BY relname"
        )
    )
    return list(rows.scalars())


def upgrade() -> None:
    """Create the extension first, then the tables, with the dimension and the distance of the settings."""
    dimension = int(context.config.attributes["dimension"])
    operator_class = str(context.config.attributes["operator_class"])
    op.execute("CREATE EXTENSION IF NOT EXISTS vector")
    # The sequence belongs to no table: all tables of vectors draw from it, and any of them may be dropped.
    op.execute("CREATE SEQUENCE IF NOT EXISTS chunk_embeddings_seq")
    # A role that may insert rows must be able to number them, also where it was granted tables alone.
    op.execute("GRANT USAGE ON SEQUENCE chunk_embeddings_seq TO PUBLIC")
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
            seq bigint NOT NULL DEFAULT nextval('chunk_embeddings_seq'),
            PRIMARY KEY (tenant_id, chunk_id)
        )
        """
    )
    op.execute(f"COMMENT ON COLUMN chunk_embeddings.embedding IS '{operator_class}'")
    op.execute(
        "CREATE INDEX chunk_embeddings_by_document ON chunk_embeddings (tenant_id, namespace, document_id, generation)"
    )
    # Of a collation of its own, so that only statements which name that one use it: it holds all of a tenant's
    # namespaces, and a search of one of them must not take it.
    op.execute('CREATE INDEX chunk_embeddings_by_seq ON chunk_embeddings (tenant_id COLLATE "C", seq)')
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
        CREATE TABLE vector_indexes (
            tenant_id text NOT NULL,
            table_name text NOT NULL,
            index_name text NOT NULL,
            state text NOT NULL CHECK (state IN ('wanted', 'building', 'ready', 'retiring')),
            chunks bigint NOT NULL,
            changed_at timestamptz NOT NULL DEFAULT now(),
            build_s real,
            first_seq bigint,
            end_seq bigint,
            built_rows bigint,
            lists integer,
            probes integer,
            recall real,
            questions integer,
            measured_at timestamptz,
            deep_probes integer,
            PRIMARY KEY (tenant_id, table_name, index_name)
        )
        """
    )
    # Without a row: `pipeline.database.installation` writes the id once both stores are migrated.
    op.execute(
        """
        CREATE TABLE installation (
            id smallint PRIMARY KEY CHECK (id = 1),
            installation_id text NOT NULL,
            created_at timestamptz NOT NULL DEFAULT now()
        )
        """
    )


def downgrade() -> None:
    """Drop every table, those of other embedding spaces too; the extension may serve others and stays."""
    op.execute("DROP TABLE installation")
    op.execute("DROP TABLE vector_indexes")
    op.execute("DROP TABLE document_embeddings")
    for table in vector_tables(op.get_bind()):
        op.execute(f"DROP TABLE {table}")
    op.execute("DROP SEQUENCE chunk_embeddings_seq")
