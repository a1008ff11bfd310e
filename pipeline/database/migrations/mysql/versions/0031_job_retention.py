"""Add the index by which the sweeper finds out whether a job put a file into a vector store that is still there.

The table has a row for each such file; both servers build the index beside reads and writes.
"""

from alembic import op
from sqlalchemy import inspect

revision = "0031"
down_revision = "0029"


def upgrade() -> None:
    """Create the index unless an interrupted run did."""
    names = {index["name"] for index in inspect(op.get_bind()).get_indexes("attachments")}
    if "attachments_by_job" not in names:
        op.execute("CREATE INDEX attachments_by_job ON attachments (tenant_id, job_id)")


def downgrade() -> None:
    """Drop the index."""
    op.execute("DROP INDEX attachments_by_job ON attachments")
