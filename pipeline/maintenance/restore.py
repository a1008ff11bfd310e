"""Restore a backup into empty databases, and bring the stores together before anything is served."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import structlog
from sqlalchemy import Engine, inspect

from pipeline.database.dump_programs import load_mysql, load_postgres
from pipeline.database.engines import mysql_errors, postgres_errors
from pipeline.database.statements import tenant_ids
from pipeline.database.unit_of_work import reading
from pipeline.errors import BackupFailed
from pipeline.maintenance import migrate_schema
from pipeline.maintenance.back_up import FORMAT, MANIFEST, MYSQL_FILE, POSTGRES_FILE, Manifest, digest
from pipeline.maintenance.verify import AlignmentReport, verify
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.settings import Settings

log = structlog.get_logger(__name__)

_WHOLE = 1.0  # share of vectors that the repair may delete: MySQL's dump is the record


def read_manifest(folder: Path) -> Manifest:
    """Return the description of a backup after comparing the checksums of its files. Raises BackupFailed."""
    try:
        content = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if content.get("format") != FORMAT:
            raise BackupFailed(f"{folder / MANIFEST} has format {content.get('format')}; this version reads {FORMAT}")
        manifest = Manifest(**content)
        damaged = [name for name, expected in manifest.files.items() if digest(folder / name) != expected]
    except OSError as error:
        raise BackupFailed(f"{folder} is not a backup: {error.filename}: {error.strerror}") from error
    except (ValueError, TypeError) as error:
        raise BackupFailed(f"{folder / MANIFEST} is not the manifest of a backup") from error
    if damaged:
        raise BackupFailed(f"{', '.join(damaged)} in {folder} differs from the manifest: the backup is damaged")
    return manifest


def restore(
    folder: Path,
    mysql: Engine,
    postgres: Engine,
    settings: Settings,
    *,
    on_tenant: Callable[[TenantId, AlignmentReport], None],
) -> Manifest:
    """Load a backup into two empty databases, migrate them to this version's schemas, claim Redis and empty it of the
    earlier state, and repair each tenant's vectors. No worker, clock or client may be active.

    Raises BackupFailed for a damaged backup, other settings than the backup's, or a database with tables, before any
    change; Misconfigured without the servers' programs.
    """
    manifest = read_manifest(folder)
    _refuse_other_settings(manifest, settings)
    _refuse_tables(mysql, postgres)
    load_mysql(settings, folder / MYSQL_FILE)
    load_postgres(settings, folder / POSTGRES_FILE)
    migrate_schema.adopt(mysql, postgres, settings)
    use = Resources(settings)
    try:
        with reading(use.mysql) as connection:
            tenants = tenant_ids(connection, "SELECT tenant_id FROM tenants ORDER BY tenant_id")
        for tenant_id in tenants:
            on_tenant(tenant_id, verify(tenant_id, None, use, repair=True, delete_share=_WHOLE))
    finally:
        use.close()
    log.info("backup_restored", installation_id=manifest.installation_id, tenants=len(tenants))
    return manifest


def _refuse_other_settings(manifest: Manifest, settings: Settings) -> None:
    pairs = {
        "CHORDWISE_EMBEDDING_DIM": (manifest.embedding_dim, settings.embedding_dim),
        "CHORDWISE_EMBEDDING_MODEL": (manifest.embedding_model, settings.embedding_model),
        "CHORDWISE_PGVECTOR_DISTANCE": (manifest.distance, settings.pgvector_distance),
    }
    for variable, (backup, present) in pairs.items():
        if backup != present:
            raise BackupFailed(f"{variable} is {present}, and the backup was made with {backup}")


def _refuse_tables(mysql: Engine, postgres: Engine) -> None:
    with mysql_errors(), mysql.connect() as connection:
        tables = {"MySQL": inspect(connection).get_table_names()}
    with postgres_errors(), postgres.connect() as connection:
        tables["PostgreSQL"] = inspect(connection).get_table_names()
    for server, names in tables.items():
        if names:
            raise BackupFailed(
                f"the database in {server} has {len(names)} tables, such as {names[0]}: restore into an empty one"
            )
