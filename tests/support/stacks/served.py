"""Ingestion against the service of openai_server.py, on the real stores and in databases of a module's own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from chordwise.contract.job import Job
from pipeline.errors import Unavailable
from pipeline.ingestion.accept import AcceptedJob
from pipeline.ingestion.run import ingest_next
from pipeline.maintenance.sweep import sweep
from pipeline.models.ports import Embedder
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.settings import Settings
from tests.conftest import databases_of_its_own, make_tenant
from tests.support.corpora.uploads import upload
from tests.support.servers.openai_server import OpenAIServer
from tests.support.stacks.connections import sharing
from tests.support.stacks.corner import job_of, submit

DIMENSION = 64


class Served:
    """One tenant, a model service, and workers that are threads with connections of their own."""

    def __init__(self, settings: Settings, service: OpenAIServer) -> None:
        self.settings, self.service = settings, service
        self.use = self.worker()
        self.tenant: TenantId = make_tenant(self.use)[0]

    def worker(self, embedder: Embedder | None = None, **changes: Any) -> Resources:
        made = Resources(self.settings.model_copy(update=changes))
        return made if embedder is None else sharing(made, embedder=embedder)

    def submit(self, texts: list[str], *, tenant: TenantId | None = None) -> AcceptedJob:
        uploads = [upload(f"d{place}", text) for place, text in enumerate(texts)]
        return submit(self.use, tenant or self.tenant, uploads)

    def job(self, ticket: AcceptedJob) -> Job:
        return job_of(self.use, ticket)

    def work(self, ticket: AcceptedJob, *, workers: int = 1, seconds: float = 60, **changes: Any) -> Job:
        """Let workers go on, with a sweeper beside them, until the job has ended or the time is over."""
        over = threading.Event()

        def run(use: Resources) -> None:
            while not over.is_set():
                try:
                    idle = not ingest_next(use, notify=lambda *_: None)
                except Unavailable:  # as in a worker: the notification is lost and the sweeper notifies again
                    idle = True
                if idle:
                    over.wait(0.05)

        mine = [self.worker(**changes) for _ in range(workers)]
        threads = [threading.Thread(target=run, args=(use,)) for use in mine]
        for thread in threads:
            thread.start()
        try:
            for _ in range(int(seconds * 5)):
                if self.job(ticket).finished_at is not None:
                    break
                sweep(self.use, notify=lambda *_: None)
                over.wait(0.2)
        finally:
            over.set()
            for thread in threads:
                thread.join()
            for use in mine:
                use.close()
        return self.job(ticket)


@contextmanager
def tables_for_served(settings: Settings, **changes: Any) -> Iterator[Settings]:
    """New databases with the tables for the vectors of that service, and what points to both. Tests may share them:
    each has a service and a tenant of its own."""
    served = {
        "embedding_provider": "openai",
        "embedding_model": "a-model",
        "embedding_dim": DIMENSION,
        "embedding_timeout_s": 5.0,
    }
    with databases_of_its_own(settings.model_copy(update={**served, **changes})) as resources:
        yield resources.settings


@contextmanager
def served_on(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A new service, and a new tenant in the databases of ``tables_for_served``."""
    with OpenAIServer(dimension=DIMENSION) as service:
        monkeypatch.setenv("OPENAI_BASE_URL", service.url)
        monkeypatch.setenv("OPENAI_API_KEY", "not-a-real-key")
        served = Served(settings, service)
        yield served
        served.use.close()
