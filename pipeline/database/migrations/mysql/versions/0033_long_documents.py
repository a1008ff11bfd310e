"""Give each item of a job the queue whose workers claim it, and tenants a turn in the queue of long documents.

Workers of the version before go on claiming every item, whatever its queue. Both servers add the columns without copying
rows and build the index beside reads and writes.
"""

from alembic import op
from sqlalchemy import inspect

revision = "0033"
down_revision = "0031"

_QUEUE = "queue VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'ingest'"


def upgrade() -> None:
    """Add what an interrupted run did not."""
    if "queue" not in _columns("job_items"):
        op.execute(f"ALTER TABLE job_items ADD COLUMN {_QUEUE}")
    if "long_served_at" not in _columns("ingest_turns"):
        op.execute("ALTER TABLE ingest_turns ADD COLUMN long_served_at DATETIME(6) NULL")
    if "items_due_by_queue" not in _indexes():
        op.execute("CREATE INDEX items_due_by_queue ON job_items (tenant_id, job_id, state, queue, next_attempt_at)")
    if "items_due" in _indexes():
        op.execute("DROP INDEX items_due ON job_items")


def downgrade() -> None:
    """Drop the columns: every item is in the one queue again."""
    op.execute("CREATE INDEX items_due ON job_items (tenant_id, job_id, state, next_attempt_at)")
    op.execute("DROP INDEX items_due_by_queue ON job_items")
    op.execute("ALTER TABLE ingest_turns DROP COLUMN long_served_at")
    op.execute("ALTER TABLE job_items DROP COLUMN queue")


def _columns(table: str) -> set[str]:
    return {column["name"] for column in inspect(op.get_bind()).get_columns(table)}


def _indexes() -> set[str]:
    return {str(index["name"]) for index in inspect(op.get_bind()).get_indexes("job_items")}
