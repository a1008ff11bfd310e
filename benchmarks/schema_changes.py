"""Section `schema`: the rates at which both databases change tables, for docs/change.md (How long a migration takes)."""

from __future__ import annotations

import random
import time
import uuid
from typing import Any

from sqlalchemy import Connection, Engine, text

from benchmarks import table
from pipeline.database.engines import engines
from pipeline.database.schema import Side
from pipeline.settings import load

ROWS, QUICK_ROWS = 100_000, 20_000
_BYTES: dict[Side, str] = {
    "mysql": "SELECT data_length FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = :name",
    "postgres": "SELECT pg_table_size(CAST(:name AS regclass))",
}
_FIRST = 1_000  # rows made here; the server doubles them
_TERMS = 120
_STATEMENTS: dict[Side, tuple[str, ...]] = {
    "mysql": (
        "ALTER TABLE {t} ADD COLUMN added VARCHAR(16) NOT NULL DEFAULT ''",
        "CREATE INDEX by_page ON {t} (tenant_id, namespace, page)",
        "ALTER TABLE {t} ADD FULLTEXT KEY words (terms)",
        "UPDATE {t} SET added = 'x'",
        "ALTER TABLE {t} DROP KEY words",
        "ALTER TABLE {t} MODIFY page BIGINT UNSIGNED NULL",
    ),
    "postgres": (
        "ALTER TABLE {t} ADD COLUMN added text NOT NULL DEFAULT ''",
        "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (seq > 0)",
        "CREATE INDEX by_type ON {t} (tenant_id, namespace, type)",
        "CREATE INDEX CONCURRENTLY by_author ON {t} (tenant_id, namespace, author)",
        "CREATE INDEX near ON {t} USING hnsw (embedding halfvec_cosine_ops)",
        "DROP INDEX near",
        "UPDATE {t} SET added = 'x'",
        "ALTER TABLE {t} ALTER COLUMN generation TYPE bigint",
    ),
}


def run(*, quick: bool, seed: int) -> dict[str, Any]:
    """Measure each kind of change on copies of the two largest tables, which are dropped afterwards."""
    rows = QUICK_ROWS if quick else ROWS
    use, dice = load(), random.Random(seed)
    name = f"bench_{uuid.uuid4().hex[:8]}"
    with engines(use, timeout_s=3600) as (mysql, postgres):
        try:
            with mysql.connect() as connection:
                _fill_mysql(connection, name, rows, dice)
            with postgres.connect() as connection:
                _fill_postgres(connection, name, rows, dimension=use.embedding_dim)
            measured = {**_measure("mysql", mysql, name), **_measure("postgres", postgres, name)}
            return {"rows": rows, "changes": measured}
        finally:
            for engine in (mysql, postgres):
                with engine.begin() as connection:
                    connection.execute(text(f"DROP TABLE IF EXISTS {name}"))


def show(results: dict[str, Any]) -> str:
    """Return the changes as a table."""
    lines = [table.row(name, *found.values()) for name, found in results["changes"].items()]
    return table.table(("change", "MB", "s", "MB/s"), lines)


def _measure(side: Side, engine: Engine, name: str) -> dict[str, dict[str, float]]:
    found = {}
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for pattern in _STATEMENTS[side]:
            statement = pattern.format(t=name)
            connection.execute(text(f"ANALYZE {'TABLE ' if side == 'mysql' else ''}{name}"))
            mb = int(connection.execute(text(_BYTES[side]), {"name": name}).scalar_one()) / 1e6
            began = time.perf_counter()
            connection.execute(text(statement))
            took_s = time.perf_counter() - began
            found[f"{side}: {pattern.format(t='t')}"] = {
                "mb": round(mb, 1),
                "seconds": round(took_s, 3),
                "mb_per_s": round(mb / took_s, 1),
            }
    return found


def _fill_mysql(connection: Connection, name: str, rows: int, dice: random.Random) -> None:
    connection.execute(text(f"CREATE TABLE {name} LIKE chunks"))
    connection.execute(text(f"ALTER TABLE {name} DROP KEY chunks_terms"))
    vocabulary = [f"{dice.getrandbits(64):016x}"[:13] for _ in range(20_000)]
    columns = "tenant_id, namespace, document_id, generation, ordinal, chunk_id, text, heading_path, start_offset,"
    columns += " end_offset, token_count, content_hash, terms, term_count, created_at"
    values = "'bench', 'kb', :document, 1, 0, UUID(), :text, '[]', 0, 900, 200, :hash, :terms, 120, NOW(6)"
    made = [
        {
            "document": f"d{number}",
            "text": " ".join(dice.choices(vocabulary, k=70)),
            "hash": dice.randbytes(32),
            "terms": " ".join(dice.choices(vocabulary, k=_TERMS)),
        }
        for number in range(_FIRST)
    ]
    connection.execute(text(f"INSERT INTO {name} ({columns}) VALUES ({values})"), made)
    for step in range((rows // _FIRST - 1).bit_length()):
        connection.execute(
            text(
                f"INSERT INTO {name} ({columns}) SELECT tenant_id, namespace, document_id, generation,"
                f" ordinal + {1 << step}, UUID(), text, heading_path, start_offset, end_offset, token_count, content_hash,"
                f" terms, term_count, created_at FROM {name} LIMIT {max(0, rows - (_FIRST << step))}"
            )
        )
        connection.commit()


def _fill_postgres(connection: Connection, name: str, rows: int, *, dimension: int) -> None:
    connection.execute(text(f"CREATE TABLE {name} (LIKE chunk_embeddings INCLUDING ALL)"))
    connection.execute(
        text(
            f"INSERT INTO {name} (tenant_id, chunk_id, namespace, document_id, generation, embedding, model, content_hash,"
            " type, tags, metadata) SELECT 'bench', gen_random_uuid(), 'kb', 'd' || n, 1,"
            f" ARRAY(SELECT random() - 0.5 + 0 * n FROM generate_series(1, {dimension}))::real[]::vector::halfvec,"
            " 'bench', decode(md5(n::text), 'hex'), 'manual', '{}', '{}' FROM generate_series(1, :rows) n"
        ),
        {"rows": rows},
    )
    connection.commit()
