"""Add the placement of tenants on pairs of stores, and the fences of their writes. Every present tenant stays where it is.

Both tables are small and new: no lock lasts, and the previous release does not notice them.
"""

from alembic import op

revision = "0030"
down_revision = "0029"

_ASCII = "CHARACTER SET ascii COLLATE ascii_bin"
_OPTIONS = "ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"


def upgrade() -> None:
    """Create the tables, with an open fence for each tenant."""
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


def downgrade() -> None:
    """Drop both tables. Tenants on other pairs are lost to this installation."""
    op.execute("DROP TABLE write_fences")
    op.execute("DROP TABLE placements")
