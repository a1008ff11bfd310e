"""Drop the tables that placed tenants on further servers.

Raises Misconfigured before any change while a tenant is there: the other servers are not known here. Processes of the
versions that read these tables must have ended.
"""

from alembic import op
from sqlalchemy import inspect, text

from pipeline.errors import Misconfigured

revision = "0032"
down_revision = "0031"

_ASCII = "CHARACTER SET ascii COLLATE ascii_bin"
_OPTIONS = "ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
_MOST_NAMED = 20
_ELSEWHERE = text("SELECT tenant_id FROM placements WHERE pair <> 'default' OR state <> 'settled' ORDER BY tenant_id")


def upgrade() -> None:
    """Drop both tables, unless an interrupted run did."""
    tables = set(inspect(op.get_bind()).get_table_names())
    if "placements" in tables:
        _refuse_tenants_elsewhere()
        op.execute("DROP TABLE placements")
    if "write_fences" in tables:
        op.execute("DROP TABLE write_fences")


def _refuse_tenants_elsewhere() -> None:
    elsewhere = list(op.get_bind().execute(_ELSEWHERE).scalars())
    if not elsewhere:
        return
    more = f" and {len(elsewhere) - _MOST_NAMED} more" if len(elsewhere) > _MOST_NAMED else ""
    raise Misconfigured(
        f"tenants are on further pairs of databases, or move between them, which this version does not know:"
        f" {', '.join(elsewhere[:_MOST_NAMED])}{more}; with the version before, run chordwise-server tenants move TENANT"
        " --to default for each (tenants undo TENANT for a move that has not ended), delete the row in the table placements"
        " of one that was erased or never created, and then migrate again"
    )


def downgrade() -> None:
    """Create both tables, with every tenant on the first servers."""
    op.execute(
        f"CREATE TABLE placements (tenant_id VARCHAR(64) {_ASCII} NOT NULL, pair VARCHAR(32) {_ASCII} NOT NULL,"
        f" state VARCHAR(16) {_ASCII} NOT NULL, target VARCHAR(32) {_ASCII} NULL, changed_at DATETIME(6) NOT NULL,"
        f" PRIMARY KEY (tenant_id)) {_OPTIONS}"
    )
    op.execute(
        f"CREATE TABLE write_fences (tenant_id VARCHAR(64) {_ASCII} NOT NULL, is_closed TINYINT NOT NULL,"
        f" PRIMARY KEY (tenant_id)) {_OPTIONS}"
    )
    op.execute("INSERT INTO write_fences (tenant_id, is_closed) SELECT tenant_id, 0 FROM tenants")
