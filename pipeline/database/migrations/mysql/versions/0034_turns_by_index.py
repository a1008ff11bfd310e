"""Give the turns of jobs an index in their order, so that taking a batch does not read every open job.

The table has a row for each job that is kept; both servers build the index beside reads and writes.
"""

from alembic import op
from sqlalchemy import inspect

revision = "0034"
down_revision = "0033"

_IN_TURN = "jobs_in_turn ON jobs (tenant_id, finished_at, priority, served_at, created_at, job_id)"


def upgrade() -> None:
    """Replace the index of open jobs, which begins with the same columns; do what an interrupted run did not."""
    if "jobs_in_turn" not in _indexes():
        op.execute(f"CREATE INDEX {_IN_TURN}")
    if "jobs_open" in _indexes():
        op.execute("DROP INDEX jobs_open ON jobs")


def downgrade() -> None:
    """Put the shorter index back."""
    op.execute("CREATE INDEX jobs_open ON jobs (tenant_id, finished_at)")
    op.execute("DROP INDEX jobs_in_turn ON jobs")


def _indexes() -> set[str]:
    return {str(index["name"]) for index in inspect(op.get_bind()).get_indexes("jobs")}
