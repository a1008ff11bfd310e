"""How retrieval is done, by name and version, and the experiments that try something else."""

from alembic import op

revision = "0012"
down_revision = "0011"

_ASCII = "CHARACTER SET ascii COLLATE ascii_bin"
_TENANT = f"tenant_id VARCHAR(64) {_ASCII} NOT NULL"
_OPTIONS = "ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"

TABLES: dict[str, str] = {
    "profiles": f"""
        {_TENANT},
        name VARCHAR(64) NOT NULL,
        version INT UNSIGNED NOT NULL,
        config JSON NOT NULL,
        note VARCHAR(255) NOT NULL DEFAULT '',
        created_by VARCHAR(255) NOT NULL DEFAULT '',
        created_at DATETIME(6) NOT NULL,
        PRIMARY KEY (tenant_id, name, version)""",
    "profile_heads": f"""
        {_TENANT},
        name VARCHAR(64) NOT NULL,
        active_version INT UNSIGNED NOT NULL,
        previous_version INT UNSIGNED NULL,
        trial_version INT UNSIGNED NULL,
        trial_share DOUBLE NOT NULL DEFAULT 0,
        updated_at DATETIME(6) NOT NULL,
        PRIMARY KEY (tenant_id, name)""",
    "experiments": f"""
        {_TENANT},
        experiment_id VARCHAR(64) NOT NULL,
        config JSON NOT NULL,
        active BOOLEAN NOT NULL DEFAULT TRUE,
        created_at DATETIME(6) NOT NULL,
        updated_at DATETIME(6) NOT NULL,
        PRIMARY KEY (tenant_id, experiment_id)""",
}


def upgrade() -> None:
    """Create the tables; a tenant without rows uses what is built in."""
    for name, columns in TABLES.items():
        op.execute(f"CREATE TABLE {name} ({columns}) {_OPTIONS}")


def downgrade() -> None:
    """Forget profiles and experiments."""
    for name in reversed(TABLES):
        op.execute(f"DROP TABLE {name}")
