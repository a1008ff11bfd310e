"""A worker that carries out one run of a source and ingests what the run hands in, until it is killed.

Run as `python -m tests.support.stacks.following_worker TENANT JOB`.
"""

from __future__ import annotations

import sys

from pipeline.administration.run_source import carry_out_run
from pipeline.ingestion.run import take
from pipeline.records import IngestQueue, JobId, TenantId
from pipeline.resources import Resources
from pipeline.settings import settings
from tests.support.stacks.one_job import ingest_batch


def main(tenant: str, job: str) -> None:
    tenant_id, job_id, use = TenantId(tenant), JobId(job), Resources(settings())
    claims = take(tenant_id, job_id, use, queue=IngestQueue.SOURCE)
    assert claims is not None

    def ingest(*_: object) -> None:
        ingest_batch(tenant_id, job_id, use, notify=lambda *_: None)

    for claim in claims.items:
        carry_out_run(tenant_id, claim, use, notify=ingest)


if __name__ == "__main__":
    main(*sys.argv[1:])
