"""Redis forgets every message, lock and result in the middle of a batch: that costs seconds, and no document."""

from __future__ import annotations

import time

import pytest

from tests.support.corpora.documents import assert_whole, finished, half_done

DOCUMENTS = 600
_SECONDS = 30  # a sweep every ten and the rest of the work


@pytest.mark.thorough
@pytest.mark.alone
@pytest.mark.timeout(120)
def it_costs_seconds_when_redis_forgets_everything(client, namespace, use):
    job_id = half_done(client, namespace, DOCUMENTS)
    forgotten_at = time.monotonic()
    use.redis.flushdb()
    job = finished(client, job_id, wait_s=90)
    took_s = time.monotonic() - forgotten_at
    assert (job["status"], job["succeeded"], job["failed"]) == ("succeeded", DOCUMENTS, 0)
    assert took_s < _SECONDS
    assert_whole(client, namespace, documents=DOCUMENTS, chunks=job["chunks"])
    answer = client.post(
        "/v1/queries",
        json={"query_text": "subject 42", "namespaces": [namespace]},
        headers={"Prefer": "wait=5"},
    )
    assert answer.status_code == 200
    assert answer.json()["stats"]["degraded"] is False
