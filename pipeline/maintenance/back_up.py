"""Back up both databases while the installation runs: two snapshots and a manifest in one folder."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import structlog
from sqlalchemy import Engine

from pipeline.database.dump_programs import dump_mysql, dump_postgres
from pipeline.errors import BackupFailed
from pipeline.maintenance import migrate_schema
from pipeline.settings import Settings

log = structlog.get_logger(__name__)

MYSQL_FILE: Final = "mysql.sql"
POSTGRES_FILE: Final = "postgres.dump"
MANIFEST: Final = "manifest.json"
FORMAT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The description of a backup. ``files``: SHA-256 by name; ``revisions``: of both schemas, as ``mysql`` and
    ``postgres``."""

    format: int
    installation_id: str
    version: str
    made_at: str
    revisions: dict[str, str]
    embedding_model: str
    embedding_dim: int
    distance: str
    files: dict[str, str]


def back_up(mysql: Engine, postgres: Engine, settings: Settings, to: Path) -> Manifest:
    """Write a backup into the new folder ``to``, which appears only when complete. Raises Misconfigured, WrongInstallation,
    BackupFailed.

    MySQL's snapshot is begun first: a document added between the two has surplus vectors, which `restore` removes.
    """
    installation_id = migrate_schema.check_all(mysql, postgres, settings)
    if to.exists():
        raise BackupFailed(f"{to} exists already; name a new folder")
    unfinished = to.with_name(f"{to.name}.unfinished")
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True, mode=0o700)
        made_at = datetime.now(UTC)
        with ThreadPoolExecutor(2) as both:
            dumps = [
                both.submit(dump_mysql, settings, unfinished / MYSQL_FILE),
                both.submit(dump_postgres, settings, unfinished / POSTGRES_FILE),
            ]
        for dump in dumps:
            dump.result()
        manifest = Manifest(
            format=FORMAT,
            installation_id=installation_id,
            version=importlib.metadata.version("chordwise"),
            made_at=made_at.isoformat(timespec="seconds"),
            revisions=migrate_schema.revisions(mysql, postgres),
            embedding_model=settings.embedding_model,
            embedding_dim=settings.embedding_dim,
            distance=settings.pgvector_distance,
            files={name: digest(unfinished / name) for name in (MYSQL_FILE, POSTGRES_FILE)},
        )
        (unfinished / MANIFEST).write_text(json.dumps(asdict(manifest), indent=1) + "\n", encoding="utf-8")
        os.replace(unfinished, to)
    except OSError as error:
        raise BackupFailed(f"{to}: {error.strerror}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)  # it has another name once it is complete
    log.info("backup_made", installation_id=installation_id, bytes=sum(file.stat().st_size for file in to.iterdir()))
    return manifest


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
