"""A namespace that follows a source, with its runs carried out in this process."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chordwise.contract.source import FollowedSource
from pipeline.administration import follow_sources
from pipeline.administration.run_source import carry_out_run
from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents.followed_store import FollowedSources
from pipeline.ingestion.accept import AcceptedJob
from pipeline.ingestion.run import take
from pipeline.records import IngestQueue, JobId
from pipeline.resources import Resources
from tests.support.stacks.corner import Corner


def quiet(*_: object) -> None:
    """Notify nobody: the test works on jobs itself."""


@dataclass(eq=False)
class Follower:
    """A namespace that follows one folder."""

    corner: Corner
    folder: Path
    source_id: str = "docs"

    def follow(self, url: str | None = None, **given: Any) -> FollowedSource:
        options: dict[str, Any] = {"every_s": 3600, "rules": [], "secret": None, "source_id": self.source_id, **given}
        follow_sources.follow(
            self.corner.tenant,
            self.corner.namespace,
            url or f"file://{self.folder}",
            self.corner.use,
            request_id="r",
            notify=quiet,
            **options,
        )
        return self.source()

    def source(self) -> FollowedSource:
        with unit_of_work(self.corner.use.mysql) as work:
            found = FollowedSources(work.connection, self.corner.tenant).one(self.corner.namespace, self.source_id)
        assert found is not None
        return found

    def run(self, *, confirm: bool = False, use: Resources | None = None, pause_s: float = 30.0) -> FollowedSource:
        """Begin a run unless one is under way, carry it out and ingest what it handed in."""
        job_id = follow_sources.run_now(
            self.corner.tenant,
            self.corner.namespace,
            self.source_id,
            self.corner.use,
            request_id="r",
            notify=quiet,
            confirm=confirm,
        )
        assert job_id is not None
        self.carry_out(job_id, use=use, pause_s=pause_s)
        return self.source()

    def carry_out(self, job_id: JobId, *, use: Resources | None = None, pause_s: float = 30.0) -> None:
        self.corner.make_due()
        claims = take(self.corner.tenant, job_id, self.corner.use, queue=IngestQueue.SOURCE)
        assert claims is not None
        for claim in claims.items:
            carry_out_run(self.corner.tenant, claim, use or self.corner.use, notify=quiet, patience=(pause_s, pause_s))
        self.corner.work(self.ticket(job_id))

    def ticket(self, job_id: JobId) -> AcceptedJob:
        return AcceptedJob(tenant_id=self.corner.tenant, job_id=job_id, request_id="r", total=0, due=0)

    def documents(self) -> set[str]:
        rows = self.corner.execute(
            "SELECT document_id FROM documents WHERE tenant_id = :tenant AND namespace = :namespace"
            " AND published_generation IS NOT NULL",
            namespace=self.corner.namespace,
        )
        return {row.document_id for row in rows}

    def status(self) -> str:
        return self.corner.job(self.ticket(JobId(str(self.source().job_id)))).status


def write(folder: Path, **texts: str) -> None:
    """Write files by their names, in which two underscores stand for a slash and one for a dot."""
    for name, body in texts.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body)


def commit(repository: Path, message: str = "m") -> None:
    """Commit all files of a git repository."""
    who = ["-c", "user.email=ada@example.com", "-c", "user.name=ada"]
    subprocess.run(["git", "add", "-A"], cwd=repository, check=True)
    subprocess.run(["git", *who, "commit", "-qm", message], cwd=repository, check=True)


def counts(source: FollowedSource) -> dict[str, int]:
    assert source.run is not None
    names = ("listed", "added", "changed", "removed", "unchanged", "skipped")
    return {name: value for name in names if (value := getattr(source.run, name))}


def reasons(source: FollowedSource) -> dict[str, str]:
    assert source.run is not None
    return {change.path: change.reason for change in source.run.changes if change.action == "skipped"}
