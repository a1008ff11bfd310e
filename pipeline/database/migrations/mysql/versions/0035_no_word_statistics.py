"""Drop the statistics of words, which only 0.1.0 wrote.

Processes of 0.1.0 must have ended.
"""

from alembic import op

revision = "0035"
down_revision = "0034"

_ASCII = "CHARACTER SET ascii COLLATE ascii_bin"
_KEY = f"tenant_id VARCHAR(64) {_ASCII} NOT NULL, namespace VARCHAR(64) NOT NULL"
_OPTIONS = "ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"


def upgrade() -> None:
    """Drop both tables."""
    op.execute("DROP TABLE IF EXISTS term_statistics")
    op.execute("DROP TABLE IF EXISTS term_changes")


def downgrade() -> None:
    """Create both tables again, empty: `chordwise verify --repair` of 0.1.0 fills them."""
    op.execute(
        f"CREATE TABLE term_statistics ({_KEY}, term CHAR(13) {_ASCII} NOT NULL, chunk_count INT NOT NULL,"
        f" PRIMARY KEY (tenant_id, namespace, term)) {_OPTIONS}"
    )
    op.execute(
        f"CREATE TABLE term_changes ({_KEY}, change_id CHAR(36) {_ASCII} NOT NULL, changes MEDIUMBLOB NOT NULL,"
        f" created_at DATETIME(6) NOT NULL, PRIMARY KEY (tenant_id, namespace, change_id)) {_OPTIONS}"
    )
