"""Add the outcome of each document's latest upload, and bound the times of channels."""

import json
from typing import Any

from alembic import op
from sqlalchemy import text

revision = "0025"
down_revision = "0024"

_LEAST_MS, _MOST_MS = 100, 2000  # of a channel


def upgrade() -> None:
    """Take over what the ledger says of every document's latest upload."""
    op.execute(
        "ALTER TABLE documents ADD COLUMN failed_generation INT UNSIGNED NOT NULL DEFAULT 0,"
        " ADD COLUMN cancelled_generation INT UNSIGNED NOT NULL DEFAULT 0"
    )
    for state in ("failed", "cancelled"):
        op.execute(
            "UPDATE documents d JOIN job_items i ON i.tenant_id = d.tenant_id AND i.namespace = d.namespace"
            " AND i.document_id = d.document_id AND i.generation = d.latest_generation"
            f" SET d.{state}_generation = i.generation WHERE i.state = '{state}'"
        )
    for table, key, column in (
        ("profiles", "name, version", "config"),
        ("experiments", "experiment_id", "config"),
        ("api_sources", "name", "source"),
    ):
        _bound_times(table, ("tenant_id", *key.split(", ")), column)


def downgrade() -> None:
    """Times of channels stay within their bounds."""
    op.execute("ALTER TABLE documents DROP COLUMN failed_generation, DROP COLUMN cancelled_generation")


def _bound_times(table: str, key: tuple[str, ...], column: str) -> None:
    """Rewrite the stored configurations in which a channel has more or less time than it may have now."""
    connection = op.get_bind()
    rows = connection.execute(text(f"SELECT {', '.join(key)}, {column} FROM {table}")).mappings().all()
    for row in rows:
        config = json.loads(row[column])
        bounded = _source(config) if table == "api_sources" else _bounded(config)
        if bounded != config:
            where = " AND ".join(f"{name} = :{name}" for name in key)
            values = {name: row[name] for name in key} | {"bounded": json.dumps(bounded, ensure_ascii=False)}
            connection.execute(text(f"UPDATE {table} SET {column} = :bounded WHERE {where}"), values)


def _source(config: dict[str, Any]) -> dict[str, Any]:
    return config | {"timeout_ms": _within(config["timeout_ms"])} if "timeout_ms" in config else config


def _bounded(value: Any) -> Any:
    """Return the configuration with the time of every channel within its bounds; arms of experiments hold some too."""
    if isinstance(value, list):
        return [_bounded(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: _channels(each) if name == "channels" else _bounded(each) for name, each in value.items()}


def _channels(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {
        name: each | {"timeout_ms": _within(each["timeout_ms"])}
        if isinstance(each, dict) and each.get("timeout_ms") is not None
        else each
        for name, each in value.items()
    }


def _within(timeout_ms: int) -> int:
    return min(_MOST_MS, max(_LEAST_MS, timeout_ms))
