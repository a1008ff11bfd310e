"""Describe the tables of PostgreSQL, the vector store, as SQLAlchemy Core definitions.

The migrations make the tables (`migrations/postgres`) but for those of further embedding spaces; tests compare these
definitions with what they make. docs/data-model.md says which code writes and deletes the rows of each table.
"""

from collections.abc import Mapping
from typing import Any, Final

from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Sequence,
    SmallInteger,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, REAL, TIMESTAMP, UUID
from sqlalchemy.types import TypeEngine

metadata: Final = MetaData()

# The columns that searches filter by, fields of the document.
FILTERED: Final[Mapping[str, TypeEngine[Any]]] = {
    "type": Text(),
    "author": Text(),
    "tags": ARRAY(Text),
    "published_at": TIMESTAMP(timezone=True),
    "story_time": BigInteger(),
    "metadata": JSONB(),
    "readers": ARRAY(Text),
}


# All tables of chunks' vectors draw from it, and any of them may be dropped, so it belongs to none.
chunk_embeddings_seq = Sequence("chunk_embeddings_seq", metadata=metadata)


def vector_table(name: str, metadata: MetaData, *, dimension: int, operator_class: str) -> Table:
    """Return the table of one embedding space. ``operator_class``: the one that indexes of its distance have.

    The first space's table is `chunk_embeddings`. The table of a further one, `chunk_embeddings_2` …, is made when a model
    migration begins, as a copy of the one in use whose indexes have other names (`embedding.space_store`).
    Approximate indexes of ranges of large tenants come and go at run time: `semantic.vector_index_store`.
    """
    return Table(
        name,
        metadata,
        Column("tenant_id", Text, primary_key=True),
        Column("chunk_id", UUID(as_uuid=False), primary_key=True),  # as in MySQL
        Column("namespace", Text, nullable=False),
        Column("document_id", Text, nullable=False),
        Column("generation", Integer, nullable=False),
        # Start-up compares the comment with the distance of the settings.
        Column("embedding", HALFVEC(dimension), nullable=False, comment=operator_class),
        Column("model", Text, nullable=False),
        Column("content_hash", LargeBinary, nullable=False),  # SHA-256 of the text that was embedded
        # Tags and metadata are empty, not NULL, where a document has none; readers are NULL where everyone may read it.
        *(Column(name, kind, nullable=name not in ("tags", "metadata")) for name, kind in FILTERED.items()),
        Column("created_at", TIMESTAMP(timezone=True), nullable=False, server_default=text("now()")),
        # The order of insertion: an approximate index holds a range of these numbers.
        Column("seq", BigInteger, nullable=False, server_default=text("nextval('chunk_embeddings_seq')")),
        Index(f"{name}_by_document", "tenant_id", "namespace", "document_id", "generation"),
        # The collation keeps it from all statements that do not name one: it holds all of a tenant's namespaces, and a
        # search of one of them must not take it.
        Index(f"{name}_by_seq", text('tenant_id COLLATE "C"'), "seq"),
    )


# The mean of the vectors of a document's chunks; can be made again from them at any time.
document_embeddings = Table(
    "document_embeddings",
    metadata,
    Column("tenant_id", Text, primary_key=True),
    Column("namespace", Text, primary_key=True),
    Column("document_id", Text, primary_key=True),
    Column("generation", Integer, primary_key=True, autoincrement=False),
    Column("embedding", HALFVEC, nullable=False),  # of any dimension: vectors of two spaces may coexist for a while
    Column("model", Text, nullable=False),
    Column("chunk_count", Integer, nullable=False),
    Column("content_hash", LargeBinary, nullable=False),  # of the chunks' hashes in order of chunk id
)

# The approximate index of a range of a tenant's vectors, or with the state ``wanted`` how many rows have none.
vector_indexes = Table(
    "vector_indexes",
    metadata,
    Column("tenant_id", Text, primary_key=True),
    Column("table_name", Text, primary_key=True),
    Column("index_name", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("chunks", BigInteger, nullable=False),
    Column("changed_at", TIMESTAMP(timezone=True), nullable=False, server_default=text("now()")),
    Column("build_s", REAL),  # the seconds that building it took
    Column("first_seq", BigInteger),
    Column("end_seq", BigInteger),  # the first number after the range
    Column("built_rows", BigInteger),  # how many rows it held when it was built
    Column("graph", Text),  # the options of an HNSW graph; null: lists of IVFFlat
    Column("lists", Integer),  # of a graph the largest ef_search
    Column("probes", Integer),  # lists to read for the nearest ten, or the ef_search of a graph
    Column("recall", REAL),  # measured with these probes and so many questions
    Column("questions", Integer),
    Column("measured_at", TIMESTAMP(timezone=True)),
    Column("deep_probes", Integer),  # the same for the nearest hundred
    Column("search_ms", REAL),  # how long such a search took
    Column("graph_ms", REAL),  # of lists: how long it took through a graph that was tried and not kept
    CheckConstraint("state IN ('wanted', 'building', 'ready', 'retiring')", name="vector_indexes_state_check"),
)

# One row: the id of the installation, taken from MySQL.
installation = Table(
    "installation",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("installation_id", Text, nullable=False),
    Column("created_at", TIMESTAMP(timezone=True), nullable=False, server_default=text("now()")),
    CheckConstraint("id = 1", name="installation_id_check"),
)
