"""Which of a chunk's terms are of which field, and what tenants say of words: synonyms, stop words, phrases, rules."""

from alembic import op

revision = "0015"
down_revision = "0014"

_FIELDS = ("title_terms", "summary_terms", "entity_terms")


def upgrade() -> None:
    """Of existing chunks every term counts as one of the body, which is how they were searched so far.

    ``namespace`` is empty where a dictionary holds for all of them; ``said`` is NULL once it was deleted.
    """
    added = ", ".join(f"ADD COLUMN {name} INT UNSIGNED NOT NULL DEFAULT 0" for name in _FIELDS)
    op.execute(f"ALTER TABLE chunks {added}")
    op.execute(
        "CREATE TABLE dictionaries ("
        " tenant_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,"
        " namespace VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,"
        " said JSON NULL,"
        " version INT UNSIGNED NOT NULL,"
        " updated_at DATETIME(6) NOT NULL,"
        " PRIMARY KEY (tenant_id, namespace)"
        ") ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    )


def downgrade() -> None:
    """The dictionaries are lost; every term counts as one of the body again."""
    op.execute("DROP TABLE dictionaries")
    op.execute(f"ALTER TABLE chunks {', '.join(f'DROP COLUMN {name}' for name in _FIELDS)}")
