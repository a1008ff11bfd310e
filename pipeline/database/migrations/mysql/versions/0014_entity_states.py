"""What the entities of a story are like, from which story time on."""

from alembic import op

revision = "0014"
down_revision = "0013"

_TEXT = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"


def upgrade() -> None:
    """One row for each state. A state without a story time holds from the beginning: the smallest number stands for it.
    ``name_key`` is what names are compared by."""
    op.execute(
        "CREATE TABLE entity_states ("
        " tenant_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,"
        f" namespace VARCHAR(64) {_TEXT} NOT NULL,"
        f" entity_id VARCHAR(64) {_TEXT} NOT NULL,"
        " story_time BIGINT NOT NULL,"
        f" name VARCHAR(255) {_TEXT} NOT NULL,"
        f" name_key VARCHAR(255) {_TEXT} NOT NULL,"
        f" type VARCHAR(64) {_TEXT} NULL,"
        " state JSON NOT NULL,"
        " updated_at DATETIME(6) NOT NULL,"
        " PRIMARY KEY (tenant_id, namespace, entity_id, story_time),"
        " KEY entity_states_by_name (tenant_id, namespace, name_key)"
        ") ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    )


def downgrade() -> None:
    """The states are lost with the table."""
    op.execute("DROP TABLE entity_states")
