"""From here on vectors may stand in more than one table: `chunk_embeddings`, `chunk_embeddings_2`, one for each model.

The tables are made when a move to another model begins (`pipeline.embedding.space_store`), as copies of the one in use.
A later revision that changes `chunk_embeddings` has to change each of them: `spaces(connection)` names them.
"""

from alembic import op
from sqlalchemy import Connection, text

revision = "0003"
down_revision = "0002"


def spaces(connection: Connection) -> list[str]:
    """Every table that holds the vectors of chunks."""
    rows = connection.execute(
        text(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
            " AND relname ~ '^chunk_embeddings(_[0-9]+)?$' ORDER BY relname"
        )
    )
    return list(rows.scalars())


def upgrade() -> None:
    """Nothing changes before the first move."""


def downgrade() -> None:
    """Leave one table under the first name, the newest; the revisions before this one know no other."""
    found = sorted(spaces(op.get_bind()), key=lambda name: (len(name), name))
    for name in found[:-1]:
        op.execute(f"DROP TABLE {name}")
    if found and found[-1] != "chunk_embeddings":
        op.execute(f"ALTER TABLE {found[-1]} RENAME TO chunk_embeddings")
